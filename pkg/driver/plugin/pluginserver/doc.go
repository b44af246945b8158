// Package pluginserver makes a plugin of a driver: a process that offers the driver to the node daemon on a unix socket.
package pluginserver
