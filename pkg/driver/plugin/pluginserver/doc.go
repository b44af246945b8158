// Package pluginserver turns a driver into a plugin: a process that serves the driver to the node daemon on a unix
// socket.
package pluginserver
