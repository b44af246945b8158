// Package rootfs makes the lab's initramfs from Debian packages: it fetches them with apt, which verifies them, picks
// the needed programs and kernel modules with their dependencies, and writes them as an archive. Nothing is installed
// on the machine.
package rootfs
