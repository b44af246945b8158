// Package window decides when a pool is open: by windows that allow it and windows that deny it, given as cron schedules in a time
// zone, or as a start and an end. It does no I/O but reading time zones.
package window
