package status

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The condition of a CustomResourceDefinition that says whether objects are being stored anew, and its reasons. The type and the first two
// are those of Kubernetes' own migration.
const (
	storageMigrating           = "StorageMigrating"
	reasonMigrationRunning     = "MigrationRunning"
	reasonMigrationSucceeded   = "MigrationSucceeded"
	reasonMigrationIncomplete  = "MigrationIncomplete"
	namedRefusals, maxRefusals = 3, 200
)

// StorageMigrating says in a definition that objects are being stored anew in a version. Refused counts those that the API server does not store;
// said is what it says of some of them, by name.
func StorageMigrating(version string, refused int, said map[string]string) Condition {
	c := Condition{Type: storageMigrating, Status: metav1.ConditionTrue, Reason: reasonMigrationRunning,
		Message: fmt.Sprintf("The firmware operator has every object stored anew as %s.", version)}
	if refused == 0 {
		return c
	}
	var named []string
	for _, name := range slices.Sorted(maps.Keys(said))[:min(len(said), namedRefusals)] {
		named = append(named, fmt.Sprintf("%s: %.*s", name, maxRefusals, said[name]))
	}
	c.Reason = reasonMigrationIncomplete
	c.Message = fmt.Sprintf("The API server did not store %d of the objects as %s, the others it did. Correct or delete them; they are tried again every few minutes. %s",
		refused, version, strings.Join(named, "; "))
	return c
}

// StorageMigrated says in a definition that every object is stored in a version.
func StorageMigrated(version string) Condition {
	return Condition{Type: storageMigrating, Status: metav1.ConditionFalse, Reason: reasonMigrationSucceeded,
		Message: fmt.Sprintf("The firmware operator had every object stored anew as %s.", version)}
}
