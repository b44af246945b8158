// Package admintest plays an NVMe drive below its admin commands: commands come in as the kernel gets them, bytes and
// statuses go out. Its state is in a directory, so that several processes can use one drive.
package admintest
