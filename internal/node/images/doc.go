// Package images keeps verified firmware images on this machine, fetched from the operator by their digest.
package images
