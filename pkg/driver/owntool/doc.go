// Package owntool is what the tools inside this program share, through which drivers write to the kernel as they write through those of vendors.
package owntool
