// Package chaos proves the update transaction by breaking everything around it: it runs the real engine over the real
// journal and archive on a simulated host, kills, reboots and cuts at numbered boundaries, and judges what was done to the
// hardware by the invariants of the design.
package chaos
