// Package steps runs the steps of a job that are not part of every update: those of this product, which compare the
// node with its expected state or reset the settings of its system firmware, and those that drivers provide.
package steps
