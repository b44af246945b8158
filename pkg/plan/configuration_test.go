package plan_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
)

func TestDecideConfiguration(t *testing.T) {
	const none, reset, reboot, power = inventory.ActivateNone, inventory.ActivateDeviceReset, inventory.ActivateReboot, inventory.ActivatePowerCycle
	param := func(name, current, next string, needs inventory.Activation) inventory.Parameter {
		p := inventory.Parameter{Name: name, Default: inventory.Read("0"), Needs: needs}
		if current != "" {
			p.Current = inventory.Read(current)
		}
		if next != "" {
			p.Next = inventory.Read(next)
		}
		return p
	}
	set := func(name, value string) []inventory.Setting { return []inventory.Setting{{Name: name, Value: value}} }
	for name, c := range map[string]struct {
		want    plan.Configuration
		all     []inventory.Parameter
		coming  bool
		changes []plan.Change
		needs   inventory.Activation
		later   []string
		resets  []inventory.Setting
		refusal string
	}{
		"in force": {want: plan.Configuration{Set: set("A", "1")}, all: []inventory.Parameter{param("A", "1", "1", reboot)}},
		"differs": {want: plan.Configuration{Set: set("A", "1")}, all: []inventory.Parameter{param("A", "0", "0", reboot)}, needs: reboot,
			changes: []plan.Change{{Setting: set("A", "1")[0], Had: inventory.Read("0"), Needs: reboot}}},
		"waits for its activation": {want: plan.Configuration{Set: set("A", "1")}, all: []inventory.Parameter{param("A", "0", "1", reset)}, needs: reset,
			changes: []plan.Change{{Setting: set("A", "1")[0], Had: inventory.Read("0"), Needs: reset}}},
		"in force while another waits": {want: plan.Configuration{Set: set("A", "1")}, all: []inventory.Parameter{param("A", "1", "2", reboot)},
			changes: []plan.Change{{Setting: set("A", "1")[0], Had: inventory.Read("2"), Needs: none}}},
		"stored, and what is in force is not known": {want: plan.Configuration{Set: set("A", "1")}, all: []inventory.Parameter{param("A", "", "1", reboot)}},
		"not stored, and what is in force is not known": {want: plan.Configuration{Set: set("A", "1")}, all: []inventory.Parameter{param("A", "", "2", reboot)},
			needs: reboot, changes: []plan.Change{{Setting: set("A", "1")[0], Had: inventory.Read("2"), Needs: reboot}}},
		"unknown name": {want: plan.Configuration{Set: set("B", "1")}, all: []inventory.Parameter{param("A", "1", "1", none)}, later: []string{"B"},
			refusal: "the device has no parameter B: the nearest are A"},
		"unknown name of coming firmware": {want: plan.Configuration{Set: set("B", "1")}, all: []inventory.Parameter{param("A", "1", "1", none)}, coming: true,
			later: []string{"B"}},
		"a power cycle": {want: plan.Configuration{Set: set("A", "1")}, all: []inventory.Parameter{param("A", "0", "0", power)}, needs: power,
			changes: []plan.Change{{Setting: set("A", "1")[0], Had: inventory.Read("0"), Needs: power}},
			refusal: "it would need a power cycle, which nothing here can do"},
		"all others reset": {want: plan.Configuration{Set: set("A", "1"), ResetUnlisted: true}, needs: reset,
			all:    []inventory.Parameter{param("A", "1", "1", reboot), param("B", "5", "5", reset), param("C", "0", "0", reboot)},
			resets: set("B", "0"), changes: []plan.Change{{Setting: set("B", "0")[0], Had: inventory.Read("5"), Needs: reset}}},
	} {
		t.Run(name, func(t *testing.T) {
			got := plan.DecideConfiguration(c.want, c.all, c.coming)
			assert.Equal(t, c.resets, got.Resets)
			assert.Subset(t, append(c.want.Set, c.resets...), got.Now)
			assert.Equal(t, c.coming && len(c.later) > 0, len(got.Now) < len(c.want.Set)+len(c.resets), "what other firmware brings is not asked for now")
			got.Resets, got.Now = nil, nil
			assert.Equal(t, plan.ConfigurationDecision{Changes: c.changes, Activation: c.needs, Later: c.later, Refusal: c.refusal}, got)
		})
	}
}
