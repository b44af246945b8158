// Package nvmectrl models how an NVMe controller handles firmware: what it identifies itself as, how it takes an image in
// pieces, stores it in a slot and activates it, and what it logs. It follows the NVMe Base Specification 2.0. The simulated
// drives of the tests and labs are transports around it: nvme-cli in simhost, the kernel's pass-through in admintest, and
// NVMe over TCP in nvmetcp. It imports nothing of the product, whose drivers are tested against it.
package nvmectrl
