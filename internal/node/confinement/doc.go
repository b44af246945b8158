// Package confinement proves at the start of a daemon that the API server refuses it the objects of other nodes.
package confinement
