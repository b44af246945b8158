// Package cli is what firmware-daemon does on one machine without a cluster: discover, plan, apply, and what it
// remembers and archives.
package cli
