// Package nvmetcp is an NVMe drive for the lab VM: a target of NVMe over TCP that the kernel's own initiator connects to
// over the loopback. Package nvmectrl models how it handles firmware; its slots survive a power cut. The wire formats are
// those of the NVMe/TCP transport specification 1.0, NVMe over Fabrics 1.1 and the NVMe base specification 1.4. There are
// no digests, no authentication and no discovery controller.
package nvmetcp
