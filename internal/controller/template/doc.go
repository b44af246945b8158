// Package template brings the firmware that templates and pins name into the NodeDevices they match, and reports on
// templates what became of them.
package template
