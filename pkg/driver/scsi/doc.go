// Package scsi is the driver of SAS drives: it runs sg3_utils to read a drive's INQUIRY data, to ask which modes of
// downloading microcode it supports, to download and activate an image with WRITE BUFFER, and to have it erase itself with SANITIZE.
package scsi
