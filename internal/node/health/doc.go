// Package health checks whether a host is as healthy after a job as it was before.
package health
