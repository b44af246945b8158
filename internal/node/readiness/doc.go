// Package readiness reads from the cluster whether it considers the Node of this host Ready.
package readiness
