// Package durabletest has a file system that knows what a power cut may leave of it, and whose operations can fail.
package durabletest
