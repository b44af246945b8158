// Package daemon puts the parts of the node daemon together and runs them.
package daemon
