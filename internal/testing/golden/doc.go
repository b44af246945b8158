// Package golden compares what a test got with a file that holds what it should have got.
package golden
