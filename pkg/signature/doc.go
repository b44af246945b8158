// Package signature verifies that a file was signed by the holder of a key that a person chose.
package signature
