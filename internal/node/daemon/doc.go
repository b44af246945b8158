// Package daemon assembles the parts of the node daemon and runs them.
package daemon
