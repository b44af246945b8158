// Package toolcontract lists the command lines that the drivers build, with what the vendors' real tools answer to them, and
// holds real and simulated tools to that one list.
package toolcontract
