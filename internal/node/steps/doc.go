// Package steps runs the steps of a job that are not part of every update: those of this product, which compare the node
// with what it should be or reset the settings of its system firmware, and those drivers bring.
package steps
