// Package kubectl is the plugin kubectl-firmware: what a person asks about the firmware of a fleet and has done to it, one verb a file. It
// decides nothing that the operator decides: what it prints is in the objects, or follows from them by the operator's own functions. What it
// writes is the spec of an object as a person would write it, a job of a person, and the event that says who it was.
package kubectl
