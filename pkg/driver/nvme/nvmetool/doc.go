// Package nvmetool is the program that writes to NVMe drives through the running kernel. It is a separate process and
// outlives the one that started it.
package nvmetool
