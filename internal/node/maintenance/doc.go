// Package maintenance says how the maintenance of a node stands, and has that of a host in no cluster.
package maintenance
