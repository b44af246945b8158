// Package maintenancetest is the contract of maintenance.Window in a cluster, for every implementation and for what stands on its other
// side: the maintenance-operator, its stand-in of the lab, and the firmware-operator.
package maintenancetest
