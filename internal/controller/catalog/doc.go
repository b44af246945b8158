// Package catalog creates a FirmwareCatalog for each machine model of the fleet, has its providers asked when the last discovery is too
// old, and reports which devices run behind.
package catalog
