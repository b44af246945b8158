// Package crd holds the definitions of the maintenance-operator's kinds, generated from its API module, for clusters
// of tests and of the lab in which that operator is not installed.
package crd
