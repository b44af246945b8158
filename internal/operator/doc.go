// Package operator runs the control-plane half of the product: all reconcilers and servers of firmware-operator in one
// manager.
package operator
