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

func TestSourceSaysWhatIsInStoreAndWhatIsNot(t *testing.T) {
	for want, f := range map[string]status.SourceFacts{
		"1 image from 1 file, verified and in store.":   {Reached: status.SourceDone, Images: 1, Files: 1},
		"3 images from 2 files, verified and in store.": {Reached: status.SourceDone, Images: 3, Files: 2},
		"Fetching and verifying 1 file.":                {Reached: status.SourceDownload, Files: 1},
		"Fetch a: broke off. It is tried again.":        {Reached: status.SourceDownload, Err: errors.New("fetch a: broke off"), Transient: true},
		"Deletion waits: 1 object refers to this source, among them FirmwareTemplate/t. Change or delete them.": {
			Reached: status.SourceDone, InUse: 1, InUseBy: []string{"FirmwareTemplate/t"},
		},
		"Deletion waits: 7 objects refer to this source, among them FirmwareTemplate/t, NodeFirmware/n. Change or delete them.": {
			Reached: status.SourceDone, InUse: 7, InUseBy: []string{"FirmwareTemplate/t", "NodeFirmware/n"},
		},
	} {
		ready := meta.FindStatusCondition(status.Source(nil, 1, time.Unix(0, 0), f), v1alpha1.ConditionReady)
		require.NotNil(t, ready)
		assert.Equal(t, want, ready.Message)
	}
}

// A source that is being deleted is not looked at, so nothing new is known of its stages.
func TestADeletionSaysNothingNewOfTheStages(t *testing.T) {
	at := time.Unix(0, 0)
	failed := status.Source(nil, 1, at, status.SourceFacts{Reached: status.SourceDownload, Err: errors.New("no answer"), Reason: v1alpha1.ReasonDownloadFailed})
	waits := status.SourceFacts{Reached: status.SourceDone, InUse: 1, InUseBy: []string{"FirmwareTemplate/t"}}
	stages := []string{v1alpha1.ConditionStorageAvailable, v1alpha1.ConditionDownloaded, v1alpha1.ConditionVerified, v1alpha1.ConditionPublished}
	is := status.Source(failed, 1, at, waits)
	for _, stage := range stages {
		assert.Equal(t, meta.FindStatusCondition(failed, stage), meta.FindStatusCondition(is, stage), "nothing was fetched")
	}
	assert.Equal(t, v1alpha1.ReasonInUse, meta.FindStatusCondition(is, v1alpha1.ConditionReady).Reason)

	for _, stage := range stages { // deleted before the operator saw it
		assert.Equal(t, metav1.ConditionUnknown, meta.FindStatusCondition(status.Source(nil, 1, at, waits), stage).Status)
	}
}
