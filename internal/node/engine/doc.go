// Package engine executes firmware jobs on the host it runs on, step by step, from a durable journal. It asks no API server:
// local mode and the simulated hosts of the tests run it without one. It knows nothing of the Kubernetes API.
package engine
