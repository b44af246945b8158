// Package state is the state directory of a host: who may use it, which daemon wrote it, the journal and the archive.
package state
