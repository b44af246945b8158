// Package config holds the settings of each program, checked before anything runs.
package config
