// Package driver is the contract between the product and the code for one kind of device: how to read it, check an
// image for it, write it, and activate the written image.
package driver
