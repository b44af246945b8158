// Package kubectl is the plugin kubectl-firmware: what a person asks about the firmware of a fleet, one verb a file. It reads only, and
// decides nothing that the operator decides: what it prints is in the objects, or follows from them by the operator's own functions.
package kubectl
