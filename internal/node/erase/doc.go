// Package erase erases one drive so that a person can trust it: it refuses a drive that is not the named one or is in use, has the drive
// erase itself exactly once, follows that over crashes and reboots, and compares samples of what the drive stores before and after.
package erase
