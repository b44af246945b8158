package engine

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// Who is to blame for a failed job decides whether its firmware, its settings or both are kept from the device.
func TestWhatIsKeptFromADeviceAfterAFailure(t *testing.T) {
	alone := journal.Update{Device: "d", UniqueID: "u", Configuration: "sha256:s"}
	both := journal.Update{Device: "d", UniqueID: "u", Version: "2", Digest: "sha256:i", Configuration: "sha256:s"}
	local := journal.Update{Device: "d", UniqueID: "u"}
	other := journal.Update{Device: "e", UniqueID: "v", Version: "2", Digest: "sha256:i"}
	begun := []step.Step{{Step: plan.Step{Kind: plan.Configure, Device: "d"}, Attempt: 1}}
	done := []step.Step{{Step: plan.Step{Kind: plan.Verify, Device: "d"}, State: step.Succeeded}}
	const image, settings = "image", "settings"
	for name, tc := range map[string]struct {
		update journal.Update
		steps  []step.Step
		f      step.Failure
		keeps  []string
	}{
		"its settings alone":                       {alone, nil, step.Failure{Reason: step.ParameterInvalid, Device: "d", Settings: true}, []string{settings}},
		"its settings beside firmware":             {both, nil, step.Failure{Reason: step.ParameterInvalid, Device: "d", Settings: true}, []string{settings}},
		"in local mode":                            {local, nil, step.Failure{Reason: step.ParameterInvalid, Device: "d", Settings: true}, nil},
		"a cause that passes":                      {alone, nil, step.Failure{Reason: step.ReadFailed, Device: "d", Settings: true}, nil},
		"what failed before":                       {alone, nil, step.Failure{Reason: step.Quarantined, Device: "d", Settings: true}, nil},
		"blamed with settings alone":               {alone, begun, step.Failure{Reason: step.Unhealthy, Blames: []string{"d"}}, []string{settings}},
		"blamed with both":                         {both, begun, step.Failure{Reason: step.Unhealthy, Blames: []string{"d"}}, []string{image, settings}},
		"blamed before it was told":                {both, nil, step.Failure{Reason: step.WriteFailed, Device: "d", Blames: []string{"d"}}, []string{image}},
		"another one is blamed":                    {alone, begun, step.Failure{Reason: step.Unhealthy, Blames: []string{"e"}}, nil},
		"its image":                                {both, nil, step.Failure{Reason: step.ImageRejected, Device: "d"}, []string{image}},
		"its image, and the node is held":          {both, nil, step.Failure{Reason: step.WriteFailed, Device: "d", Held: true}, []string{image, settings}},
		"the node is held for another":             {alone, nil, step.Failure{Reason: step.WriteFailed, Device: "e", Held: true}, []string{settings}},
		"the node is held, and it has them":        {alone, done, step.Failure{Reason: step.WriteFailed, Device: "e", Held: true}, nil},
		"another one fails":                        {alone, nil, step.Failure{Reason: step.ImageRejected, Device: "e"}, nil},
		"the whole job":                            {alone, nil, step.Failure{Reason: step.RebootFailed}, []string{settings}},
		"a person cancelled it":                    {alone, nil, step.Failure{Reason: step.Cancelled}, []string{settings}},
		"the node is held though the cause passes": {alone, nil, step.Failure{Reason: step.MaintenanceLost, Held: true}, []string{settings}},
	} {
		t.Run(name, func(t *testing.T) {
			job := journal.Job{Updates: []journal.Update{tc.update, other}, Record: step.Record{Steps: tc.steps}}
			var keeps []string
			for _, u := range blamed(job, tc.f) {
				if u.Device == "d" {
					keeps = append(keeps, image)
				}
			}
			for _, u := range blamedSettings(job, tc.f) {
				assert.Equal(t, "d", u.Device, "the other one gets none")
				keeps = append(keeps, settings)
			}
			assert.Equal(t, tc.keeps, keeps)
		})
	}
}
