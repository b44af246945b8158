package desired_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/desired"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
)

func digest(t *testing.T, digit string) (v1alpha1.Digest, inventory.Digest) {
	t.Helper()
	text := "sha256:" + strings.Repeat(digit, 64)
	parsed, err := inventory.ParseDigest(text)
	require.NoError(t, err)
	return v1alpha1.Digest(text), parsed
}

func TestUnassignedDesiresNothing(t *testing.T) {
	assert.Equal(t, plan.Desired{}, desired.Of(nil, "again"))
	assert.Equal(t, plan.Desired{Version: "1"}, desired.Of(&v1alpha1.DesiredFirmware{Version: "1"}, ""), "no path restricts nothing")
}

func TestRetryIsTheRequestOfTheNode(t *testing.T) {
	assert.Empty(t, desired.Retry(nil))
	assert.Empty(t, desired.Retry(&v1alpha1.NodeFirmware{}))
	asked := &v1alpha1.NodeFirmware{Spec: v1alpha1.NodeFirmwareSpec{Requests: v1alpha1.NodeRequests{Retry: "after reseating"}}}
	assert.Equal(t, plan.Clearance("after reseating"), desired.Retry(asked))
	assert.Empty(t, desired.Release(asked))
}

func TestReleaseIsNodesRequest(t *testing.T) {
	assert.Empty(t, desired.Release(nil))
	asked := &v1alpha1.NodeFirmware{Spec: v1alpha1.NodeFirmwareSpec{Requests: v1alpha1.NodeRequests{Release: "as it is"}}}
	assert.Equal(t, plan.Clearance("as it is"), desired.Release(asked))
}

func TestDesiredSaysEverythingTheAssignmentDoes(t *testing.T) {
	apiFinal, final := digest(t, "a")
	apiMiddle, middle := digest(t, "b")
	got := desired.Of(&v1alpha1.DesiredFirmware{
		Version: " 3.0 ", Digest: apiFinal, Policy: v1alpha1.PolicyApply, Downgrade: v1alpha1.DowngradeAllow,
		Path: []v1alpha1.UpgradeStep{
			{UpgradePath: v1alpha1.UpgradePath{To: "3.0", From: []string{"1.0", " 1.1"}, Via: "2.0"}, Digest: apiMiddle},
			{UpgradePath: v1alpha1.UpgradePath{To: "3.0", Below: "0.9 "}},
		},
	}, "again")
	assert.Equal(t, plan.Desired{
		Version: "3.0", Digest: final, AllowDowngrade: true, Retry: "again",
		Path: plan.Path{
			{To: "3.0", From: []inventory.Version{"1.0", "1.1"}, Via: "2.0", Digest: middle},
			{To: "3.0", Below: "0.9"},
		},
	}, got)
	assert.True(t, desired.Of(&v1alpha1.DesiredFirmware{Version: "1", Policy: v1alpha1.PolicyValidate}, "").ReportOnly)
}

func TestHopIsWhatIsFlashedNext(t *testing.T) {
	apiFinal, _ := digest(t, "a")
	apiMiddle, middle := digest(t, "b")
	want := desired.Of(&v1alpha1.DesiredFirmware{
		Version: "3.0", Digest: apiFinal, Policy: v1alpha1.PolicyApply,
		Path: []v1alpha1.UpgradeStep{{UpgradePath: v1alpha1.UpgradePath{To: "3.0", From: []string{"1.0"}, Via: "2.0"}, Digest: apiMiddle}},
	}, "")
	d := plan.Decide(want, plan.Facts{Driver: "sim", Running: "1.0"})
	assert.Equal(t, plan.DueFlash, d.Outcome)
	assert.Equal(t, inventory.Version("2.0"), d.Version)
	assert.Equal(t, middle, d.Digest)
}
