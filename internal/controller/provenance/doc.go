// Package provenance is the reconciler that compares the objects which the firmware and the settings of a node's devices came from
// with those objects as they are now, and says on the NodeFirmware which of them are obsolete. It causes no work: the planner does.
package provenance
