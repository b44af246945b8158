// Package imageserver hands verified images to the daemons: over TLS, to authenticated daemons only, with range
// requests so that an interrupted transfer goes on where it ended.
package imageserver
