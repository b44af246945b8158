// Package devicename names the devices of a node: each has the same name in the API and in local mode, scan after scan.
package devicename
