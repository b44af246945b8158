// Package nvmetool is the program that writes to NVMe drives through the running kernel: a process of its own, which
// outlives the one that started it.
package nvmetool
