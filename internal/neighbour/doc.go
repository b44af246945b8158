// Package neighbour says who else has a Node: what other products and people leave on it while they work on it, and whose its cordon is.
package neighbour
