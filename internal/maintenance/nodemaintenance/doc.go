// Package nodemaintenance takes one node out of service for a job and returns it, by asking the maintenance-operator.
package nodemaintenance
