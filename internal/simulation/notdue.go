package simulation

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
)

// NotDue counts the devices that do not run the firmware that is desired and are left out all the same, by why that is: OnlyValidated,
// Conflict, or the reason for which the operator says that their update is blocked.
type NotDue map[string]int

// The reasons that are no reasons of a blocked update.
const (
	// OnlyValidated: the policy of the rule is Validate, which reports and changes nothing.
	OnlyValidated = "Validate"
	// InConflict: several templates want different firmware.
	InConflict = v1alpha1.ConditionConflict
)

// add counts a device that is not updated though it does not run what is desired.
func (n NotDue) add(d *v1alpha1.NodeDevice, now plan.Decision) {
	blocked := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionBlocked)
	switch {
	case meta.IsStatusConditionTrue(d.Status.Conditions, v1alpha1.ConditionConflict):
		n[InConflict]++
	case now.Outcome == plan.Differs:
		n[OnlyValidated]++
	case now.Outcome == plan.Blocked:
		n[string(now.Reason)]++
	case now.Outcome.Due() && blocked != nil:
		n[blocked.Reason]++
	}
}

// String says it in a clause; it is empty for none.
func (n NotDue) String() string {
	var out []string
	for _, why := range sortedKeys(n) {
		is := map[string]string{OnlyValidated: "only validated", InConflict: "in conflict"}[why]
		if is == "" {
			is = "blocked (" + why + ")"
		}
		be := "are"
		if n[why] == 1 {
			be = "is"
		}
		out = append(out, fmt.Sprintf("%s %s %s", count(n[why], "device"), be, is))
	}
	return strings.Join(out, ", ")
}

func sortedKeys[K ~string, T any](m map[K]T) []K { return slices.Sorted(maps.Keys(m)) }
