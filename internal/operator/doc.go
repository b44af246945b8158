// Package operator runs firmware-operator: all reconcilers and servers of the control plane in one manager.
package operator
