// Package journal keeps what the daemon must remember over its own death and over reboots: the job in progress, what
// was applied to each device, and the history of jobs.
package journal
