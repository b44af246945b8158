// Package journal stores what the daemon must remember across restarts and reboots: the job in progress, what was
// applied to each device, and the history of jobs.
package journal
