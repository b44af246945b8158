// Package imageserver serves verified images over TLS to authenticated daemons only. It supports range requests, so
// that an interrupted transfer resumes where it stopped.
package imageserver
