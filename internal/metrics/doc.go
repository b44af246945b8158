// Package metrics publishes the state of the fleet for Prometheus.
package metrics
