// Package command runs vendor tools: argv only, bounded in time and output, in a clean environment, and without ever
// killing a write to a device.
package command
