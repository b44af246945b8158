// Package durabletest provides a file system that simulates power cuts and failing operations.
package durabletest
