// Package scale measures the operator in a large fleet: the real process on a real API server, with Nodes and daemons that are
// played by a small loader.
package scale
