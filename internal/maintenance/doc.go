// Package maintenance defines the maintenance of a node, and implements it for a host without a cluster.
package maintenance
