// Package imageinfo reads the metadata embedded in a firmware image: its version and the boards it is for.
package imageinfo
