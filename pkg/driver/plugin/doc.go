// Package plugin drives devices whose driver is another process, which serves the protocol of package v1 on a socket in
// a fixed directory. It speaks to plugins through a tool of its own, package plugintool, like other drivers through a
// vendor's tool: each call is a process with a deadline, and a write outlives the daemon. A plugin affects this process
// only through the exit code and the output of that tool.
package plugin
