// Package drivertest holds the conformance suite every driver passes, and a simulated driver that passes it too and
// stands in for hardware in the tests of other packages.
package drivertest
