// Package driver is the contract between the product and the code that knows one kind of device: how to read it, check
// an image for it, write it, and activate what was written.
package driver
