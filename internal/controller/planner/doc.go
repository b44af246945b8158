// Package planner is the reconciler that compares what a node's devices run with what they should run, and queues one
// job with all due updates of the node.
package planner
