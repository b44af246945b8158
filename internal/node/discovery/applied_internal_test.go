package discovery

import (
	"cmp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// R004-12: the status names what the firmware of a device came from, also where it ran already when it was first desired.
func TestOriginOfFirmwareAtTarget(t *testing.T) {
	from := func(template string) []v1alpha1.Origin {
		return []v1alpha1.Origin{{Kind: v1alpha1.OriginTemplate, Name: template}}
	}
	digest := func(of string) v1alpha1.Digest { return v1alpha1.Digest("sha256:" + strings.Repeat(of, 64)) }
	wants := func(template, image string) v1alpha1.NodeDeviceSpec {
		return v1alpha1.NodeDeviceSpec{Origin: from(template), Firmware: &v1alpha1.DesiredFirmware{Version: "2", Digest: digest(image)}}
	}
	now := time.Unix(1_700_000_000, 0)
	found := v1alpha1.AppliedFirmware{Origin: from("new"), BootID: "boot", Time: moment(now)}
	flashed := v1alpha1.AppliedFirmware{Origin: from("old"), Digest: digest("a"), BootID: "earlier", Time: metav1.Unix(1, 0)}
	byJob := &journal.Applied{Version: "2", Digest: string(digest("a"))}
	moved := flashed
	moved.Origin = from("new")
	for name, tt := range map[string]struct {
		was  *v1alpha1.AppliedFirmware
		job  *journal.Applied
		want v1alpha1.NodeDeviceSpec
		// running is 2 unless it says otherwise.
		running string
		is      *v1alpha1.AppliedFirmware
	}{
		"nothing was recorded":                 {nil, nil, wants("new", "a"), "", &found},
		"nothing is desired":                   {&flashed, byJob, v1alpha1.NodeDeviceSpec{}, "", &flashed},
		"nothing is desired, nothing recorded": {nil, nil, v1alpha1.NodeDeviceSpec{}, "", nil},
		"another object desires it now":        {&flashed, byJob, wants("new", "a"), "", &moved},
		"the same object desires it":           {&flashed, byJob, wants("old", "a"), "", &flashed},
		"another image of the version":         {&flashed, byJob, wants("new", "b"), "", &flashed},
		"somebody else flashed it since":       {&flashed, byJob, wants("new", "a"), "3", &found},
	} {
		t.Run(name, func(t *testing.T) {
			before := tt.was.DeepCopy()
			assert.Equal(t, tt.is, atTarget(tt.was, tt.job, tt.want, inventory.Version(cmp.Or(tt.running, "2")), "boot", now))
			assert.Equal(t, before, tt.was, "what was read is not changed")
		})
	}
}
