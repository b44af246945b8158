// Package admin sends admin commands to NVMe controllers through the kernel's pass-through, and reads what they answer.
package admin
