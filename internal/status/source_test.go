package status_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
)

func TestSourceSaysWhatIsInStore(t *testing.T) {
	for want, f := range map[string]status.SourceFacts{
		"1 image from 1 file, verified and in store.":   {Reached: status.SourceDone, Images: 1, Files: 1},
		"3 images from 2 files, verified and in store.": {Reached: status.SourceDone, Images: 3, Files: 2},
		"Fetching and verifying 1 file.":                {Reached: status.SourceFetching, Files: 1},
		"Fetch a: broke off. It is tried again.":        {Reached: status.SourceFetching, Err: errors.New("fetch a: broke off"), Transient: true},
		"Deletion waits, cannot be taken back, and keeps new work from its images: 1 object refers to this source, among them FirmwareTemplate/t. " +
			"Have them use another source, or delete them, and let the jobs end: kubectl get fwt,nfw,fwj": {
			Reached: status.SourceDone, InUse: 1, InUseBy: []string{"FirmwareTemplate/t"},
		},
		"Deletion waits, cannot be taken back, and keeps new work from its images: 7 objects refer to this source, among them FirmwareTemplate/t, NodeFirmware/n. " +
			"Have them use another source, or delete them, and let the jobs end: kubectl get fwt,nfw,fwj": {
			Reached: status.SourceDone, InUse: 7, InUseBy: []string{"FirmwareTemplate/t", "NodeFirmware/n"},
		},
	} {
		ready := meta.FindStatusCondition(status.Source(nil, 1, time.Unix(0, 0), f), v1alpha1.ConditionReady)
		require.NotNil(t, ready)
		assert.Equal(t, want, ready.Message)
	}
}

// A source that is being deleted is not looked at, so nothing new is known of its files.
func TestDeletionKeepsVerification(t *testing.T) {
	at, who := time.Unix(0, 0), &v1alpha1.SourceVerification{Keys: []string{"RW"}}
	failed := status.Source(nil, 1, at, status.SourceFacts{Err: errors.New("no signature"), Reason: v1alpha1.ReasonSignatureMissing, Verification: who})
	waits := status.SourceFacts{Reached: status.SourceDone, InUse: 1, InUseBy: []string{"FirmwareTemplate/t"}, Verification: who}
	is := status.Source(failed, 1, at, waits)
	signed := func(c []metav1.Condition) *metav1.Condition {
		return meta.FindStatusCondition(c, v1alpha1.ConditionSignatureVerified)
	}
	assert.Equal(t, signed(failed), signed(is), "nothing was fetched")
	assert.Equal(t, v1alpha1.ReasonInUse, meta.FindStatusCondition(is, v1alpha1.ConditionReady).Reason)
	assert.Equal(t, metav1.ConditionUnknown, signed(status.Source(nil, 1, at, waits)).Status, "deleted before the operator saw it")
	waits.Verification = nil
	assert.Nil(t, signed(status.Source(failed, 1, at, waits)), "nobody asks for signatures any more")
}
