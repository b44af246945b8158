// Package watch says which events of the objects that a reconciler watches matter to it.
package watch
