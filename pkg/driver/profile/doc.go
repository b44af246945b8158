// Package profile makes drivers of declarations: a YAML file says how a vendor's tool is run and how its answers are read.
package profile
