// Package nvme is the driver of NVMe drives: it reads a drive's controller and firmware slots, downloads and commits an
// image, and activates it. It reaches drives through the running kernel, or through nvme-cli 2.x on simulated machines.
package nvme
