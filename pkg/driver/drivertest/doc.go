// Package drivertest provides the conformance suite that every driver passes, and a simulated driver that passes it too
// and replaces hardware in the tests of other packages: in those of the engine, and in the campaigns that break it.
package drivertest
