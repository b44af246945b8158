// Package wayout writes the commands with which a person ends what waits for one. They are those of docs/concepts/ways-out.md.
package wayout
