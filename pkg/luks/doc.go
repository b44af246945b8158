// Package luks reads from the header of an encrypted disk what opens it, and decides whether something still does once registers of
// the TPM have other values.
package luks
