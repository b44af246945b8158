// Package step decides the next step of a job on one host, from the journal of the job and the state of the hardware
// read in this pass. It does no I/O.
package step
