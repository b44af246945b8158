// Package durable writes files so that a power cut at any moment leaves either the old or the new content, never a
// mixture: temporary file, fsync, rename, fsync of the directory. It works on an FS, so that tests can simulate power
// cuts, full disks and the loss of unsynced data.
package durable
