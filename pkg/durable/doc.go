// Package durable writes files so that after a power cut at any moment the old or the new content is there, and never
// something in between: temporary file, fsync, rename, fsync of the directory. It works on an FS, so that tests can cut
// the power, fill the disk and lose what was not synced.
package durable
