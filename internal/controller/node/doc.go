// Package node gives every Node its NodeFirmware and removes what belongs to Nodes that are gone.
package node
