// Package enginetest has a simulated host for tests of the engine and of what starts it.
package enginetest
