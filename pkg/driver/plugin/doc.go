// Package plugin drives devices whose driver is another process, which serves the protocol of package v1 on a socket in a
// fixed directory. It speaks through a tool of its own, package plugintool, as drivers speak through a vendor's tool: each
// call is a process with a deadline, and a write outlives the daemon. Nothing a plugin does or says reaches this process but
// as the exit code and the output of that tool.
package plugin
