// Package imageinfo reads what a firmware image says of itself: its version, and the boards it is for.
package imageinfo
