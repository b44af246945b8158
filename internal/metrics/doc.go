// Package metrics is what the operator publishes about the fleet for Prometheus.
package metrics
