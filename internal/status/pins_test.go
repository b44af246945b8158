package status_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/match"
	nfstatus "github.com/nodefirmware/node-firmware-operator/internal/status"
)

func TestPinsUnmatched(t *testing.T) {
	daemons := []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonUpToDate}}
	assert.Equal(t, daemons, nfstatus.Pins("n1", nil, daemons, 3, noon), "abnormal conditions are absent while they are not True")

	pins := []match.UnmatchedPin{
		{Name: "stay", Class: v1alpha1.ClassNIC, Nearest: &match.Near{Device: "n1-nic", Rule: "stay", Differs: []match.Difference{{Field: "vendor", Has: "15b3, Mellanox"}, {Field: "boardIDs"}}}},
		{Name: "disk", Class: v1alpha1.ClassDisk},
	}
	next := nfstatus.Pins("n1", pins, daemons, 3, noon)
	c := meta.FindStatusCondition(next, v1alpha1.ConditionPinsUnmatched)
	require.NotNil(t, c)
	assert.Equal(t, metav1.ConditionTrue, c.Status)
	assert.Equal(t, v1alpha1.ReasonNoMatch, c.Reason)
	assert.Equal(t, int64(3), c.ObservedGeneration)
	assert.Equal(t, `Pin "stay" matches no device: n1-nic is closest, but differs in vendor (the device reports 15b3, Mellanox), boardIDs (the device reports no value). `+
		`Pin "disk" matches no device: the node has none of class Disk. Until a pin matches or is removed, templates assign nothing to the devices that it may mean. `+
		`To compare: kubectl get ndev -o wide --field-selector spec.nodeName=n1  To correct it: kubectl edit nfw n1`, c.Message)
	assert.Equal(t, daemons, nfstatus.Pins("n1", nil, next, 3, noon))

	pins[1].Elsewhere = []match.Place{{Device: "n2-disk-1a2b", Node: "n2"}}
	c = meta.FindStatusCondition(nfstatus.Pins("n1", pins, nil, 3, noon), v1alpha1.ConditionPinsUnmatched)
	assert.Contains(t, c.Message, "none of class Disk. What it names by serial number is in node n2 now, as device n2-disk-1a2b; a pin does not follow it. ")
	there := nfstatus.PinElsewhere("n1", "disk", pins[1].Elsewhere[0])
	for _, part := range []string{`Device n2-disk-1a2b, which pin "disk" of NodeFirmware n1 names`, "is in this node now", "kubectl edit nfw n1 && kubectl edit nfw n2"} {
		assert.Contains(t, there, part)
	}
	for range 62 {
		pins = append(pins, pins[1])
	}
	c = meta.FindStatusCondition(nfstatus.Pins("n1", pins, nil, 3, noon), v1alpha1.ConditionPinsUnmatched)
	assert.Contains(t, c.Message, "other pins match nothing either.")
	assert.LessOrEqual(t, len(c.Message), 1024)
}
