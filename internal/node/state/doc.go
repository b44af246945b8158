// Package state opens the state directory of a host: its lock, the stamp of the daemon that wrote it, the journal and
// the archive.
package state
