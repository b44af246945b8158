// Package profile provides drivers declared in YAML: a file says how a vendor's tool is run and how its output is read.
package profile
