// Package plan decides what must happen on one host: whether the update of a device is due and why not, and in which
// order the steps of a job run. It does no I/O.
package plan
