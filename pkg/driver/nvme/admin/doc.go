// Package admin sends admin commands to NVMe controllers through the kernel's pass-through, and parses their answers.
package admin
