// Package cli is what firmware-daemon does on one machine without a cluster: discover, plan and apply.
package cli
