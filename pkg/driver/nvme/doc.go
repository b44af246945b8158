// Package nvme is the driver of NVMe drives: it runs nvme-cli 2.x to read a drive's controller and firmware slots, to
// download and commit an image, and to reset the controller.
package nvme
