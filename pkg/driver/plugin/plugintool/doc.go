// Package plugintool is the tool that speaks to plugins: a process for one call. It bounds and checks what a plugin says, and
// prints it in the words of package plugin.
package plugintool
