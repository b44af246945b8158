// Package nodecondition says on a Node, in its conditions, what others may want to know about its firmware.
package nodecondition
