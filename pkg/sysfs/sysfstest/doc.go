// Package sysfstest builds the files the kernel would show of a machine, for tests of the code that reads them.
package sysfstest
