// Package reboot asks the host to reboot.
package reboot
