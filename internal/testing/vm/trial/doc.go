// Package trial is what the labs with a virtual machine have in common, whatever it boots: a list of checks, which print a line each,
// and the firmware of one node, which is declared and followed until a job has brought it.
package trial
