// Package admintest simulates an NVMe drive below its admin commands: commands come in as the kernel gets them, bytes and
// statuses go out. Package nvmectrl models how the drive handles firmware. Its state is in a directory, so that
// several processes can use one drive.
package admintest
