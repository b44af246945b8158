// Package rootfs makes the lab's initramfs out of Debian packages: it fetches them with apt, which verifies them, picks the
// programs and kernel modules that are wanted with everything they need, and writes them as an archive. Nothing is installed
// on the machine.
package rootfs
