// Package template writes the firmware that templates and pins assign into the NodeDevices they match, and reports the
// result in the status of the templates.
package template
