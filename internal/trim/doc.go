// Package trim takes from the objects of the operator's cache what no reconciler reads.
package trim
