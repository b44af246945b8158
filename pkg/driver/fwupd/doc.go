// Package fwupd is the driver of system firmware (BIOS): it reads the DMI and ESRT tables of the host and stages
// capsules with fwupdtool 1.8 to 2.x, which needs neither a daemon nor D-Bus.
package fwupd
