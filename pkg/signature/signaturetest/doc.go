// Package signaturetest signs firmware in tests as publishers do.
package signaturetest
