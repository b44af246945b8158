package config

import "fmt"

// How nodes are taken out of service for a job.
const (
	// MaintenanceOperator asks the maintenance-operator.
	MaintenanceOperator = "Operator"
	// MaintenanceDrain has the operator cordon and drain nodes itself, for clusters without a maintenance-operator.
	MaintenanceDrain = "Drain"
	// MaintenanceNone takes no node out of service, for labs: devices are written and nodes rebooted under running workloads.
	MaintenanceNone = "None"
)

func validateMaintenance(how string) error {
	switch how {
	case MaintenanceOperator, MaintenanceDrain, MaintenanceNone:
		return nil
	}
	return fmt.Errorf("--maintenance %q: want %s, %s or %s", how, MaintenanceOperator, MaintenanceDrain, MaintenanceNone)
}
