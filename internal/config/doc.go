// Package config holds the settings of each program, validated before anything runs.
package config
