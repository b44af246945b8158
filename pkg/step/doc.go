// Package step decides the next step of a job on one host, from what the journal says of the job and what the hardware
// says now. It does no I/O.
package step
