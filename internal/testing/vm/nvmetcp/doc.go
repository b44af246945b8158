// Package nvmetcp is an NVMe drive for the lab VM: the part of a target of NVMe over TCP that the kernel's own initiator needs,
// over the loopback. Package nvmectrl models how it handles firmware; its slots survive a power cut. The wire formats are
// those of the NVMe/TCP transport specification 1.0, NVMe over Fabrics 1.1 and the NVMe base specification 1.4. Its host is a kernel
// that keeps to them: nothing here defends the drive, which holds one empty namespace and forgets what is written to it.
package nvmetcp
