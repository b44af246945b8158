// Package plugintool is the tool that speaks to plugins, one process per call. It bounds and checks what a plugin
// returns, and prints it in the format of package plugin.
package plugintool
