package rollout

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/match"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

// maxMessage bounds the messages of a record, as the API does.
const maxMessage = 1024

// planOf is how updates spread over the pool of a policy, and why that is invalid; empty where it is valid.
func planOf(p *v1alpha1.RolloutPolicy) (out schedule.Plan, invalid string) {
	out = schedule.Plan{Resume: resumeOf(p.Spec.Requests), Resumed: resumeOf(p.Status.Requests), Halt: haltOf(p.Spec.Halt)}
	out.Edited = p.Status.WavesHash != wavesHash(p.Spec.Waves)
	before := 0
	for i, w := range p.Spec.Waves {
		wave := schedule.Wave{Name: w.Name, Size: w.Size, Soak: w.Soak.Duration(0)}
		if w.NodeSelector != nil {
			s, err := metav1.LabelSelectorAsSelector(w.NodeSelector)
			if err != nil {
				s, invalid = labels.Nothing(), cmp.Or(invalid, fmt.Sprintf("spec.waves[%d].nodeSelector: %s", i, err))
			}
			wave.Selector = s
		}
		if now := percent(w.Size); now > 0 {
			if now < before {
				invalid = cmp.Or(invalid, fmt.Sprintf("spec.waves[%d].size: sizes are cumulative, so %d%% must not follow %d%%", i, now, before))
			}
			before = now
		}
		out.Waves = append(out.Waves, wave)
	}
	for i := range p.Status.Rollouts {
		out.Rollouts = append(out.Rollouts, rolloutOf(&p.Status.Rollouts[i]))
	}
	for _, e := range p.Status.Admitted {
		if e.Verdict != "" {
			out.Judged = append(out.Judged, e.JobUID)
		}
	}
	return out, invalid
}

// wavesHash tells waves from others; empty for none.
func wavesHash(waves []v1alpha1.RolloutWave) string {
	if len(waves) == 0 {
		return ""
	}
	content, _ := json.Marshal(waves) // it holds nothing that cannot be written
	return v1alpha1.ContentHash(string(content))
}

// percent is the size of a wave as a percentage, 0 where it is none.
func percent(size *intstr.IntOrString) int {
	if size == nil || size.Type == intstr.Int {
		return 0
	}
	return schedule.Budget(*size, 100)
}

func resumeOf(r *v1alpha1.RolloutRequests) string {
	if r == nil {
		return ""
	}
	return r.Resume
}

func haltOf(h *v1alpha1.RolloutHalt) *schedule.Halt {
	if h == nil {
		return nil
	}
	out := &schedule.Halt{MaxHeld: int(h.MaxHeld), MaxConsecutive: int(ptr.Deref(h.MaxConsecutiveFailures, 0))}
	out.MaxFailures = ptr.Deref(h.MaxFailures, intstr.IntOrString{})
	if p := h.LenientAfter; p != "" {
		out.LenientAfter = schedule.Budget(intstr.FromString(p), 100)
	}
	return out
}

func rolloutOf(r *v1alpha1.RolloutStatus) schedule.Rollout {
	out := schedule.Rollout{
		Target: schedule.Target{Model: r.Model, Version: r.Version, Digest: string(r.Digest)},
		Wave:   r.Wave, From: r.FromVersions, Done: int(r.Done), Succeeded: int(r.Succeeded), Failed: int(r.Failed), Consecutive: int(r.ConsecutiveFailures),
		Slow: int(r.SlowBoots),
	}
	if t := r.LastVerdictTime; t != nil {
		out.LastVerdict = t.Time
	}
	if t := r.HaltedTime; t != nil {
		out.Halted = &schedule.Halted{Time: t.Time, Message: r.Message}
	}
	return out
}

// rolloutStatus is the record of an update as the API has it. The message of one that is halted says why, and is kept from pass to
// pass.
func rolloutStatus(s schedule.RolloutState) v1alpha1.RolloutStatus {
	out := v1alpha1.RolloutStatus{
		Model: s.Model, Version: s.Version, Digest: v1alpha1.Digest(s.Digest), Wave: s.Wave, FromVersions: s.From, LastVerdictTime: timeOf(s.LastVerdict),
		Done: int32(s.Done), Succeeded: int32(s.Succeeded), Failed: int32(s.Failed), ConsecutiveFailures: int32(s.Consecutive),
		SlowBoots: int32(s.Slow), Message: text.Clip(s.Message, maxMessage),
	}
	if h := s.Halted; h != nil {
		out.HaltedTime, out.Message = timeOf(h.Time), text.Clip(h.Message, maxHalted)
	}
	return out
}

func timeOf(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	return &metav1.Time{Time: t.Truncate(time.Second)}
}

// writeRollouts puts the records of a decision into a status whose ledger is that of the decision.
func writeRollouts(s *v1alpha1.RolloutPolicyStatus, o schedule.Outcome) {
	s.Requests, s.Rollouts = nil, nil
	if o.Resumed != "" {
		s.Requests = &v1alpha1.RolloutRequests{Resume: o.Resumed}
	}
	for _, state := range o.Rollouts {
		s.Rollouts = append(s.Rollouts, rolloutStatus(state))
	}
	for i := range s.Admitted {
		s.Admitted[i].Verdict = ""
		if slices.Contains(o.Judged, s.Admitted[i].JobUID) {
			s.Admitted[i].Verdict = v1alpha1.VerdictFailed
		}
	}
}

// edges are the edges of each job by its uid. The model of a device is the one that the planner wrote into the job; in the job
// of a person it is the one that the device reports now.
func (r *Reconciler) edges(ctx context.Context, jobs map[string]*v1alpha1.FirmwareJob) (map[string][]schedule.JobEdge, error) {
	out := make(map[string][]schedule.JobEdge, len(jobs))
	for uid, j := range jobs {
		if j.Spec.Task.Type != v1alpha1.JobTypeUpdate { // a restore says nothing of an update
			continue
		}
		for i := range j.Spec.Task.Devices {
			u := &j.Spec.Task.Devices[i]
			edge := schedule.EdgeOfUpdate(u)
			if u.Model == "" {
				model, err := r.model(ctx, u.Name)
				if err != nil {
					return nil, err
				}
				edge.Model = cmp.Or(model, v1alpha1.AnyModel)
			}
			edge.Pinned = u.Origin == v1alpha1.OriginPin
			out[uid] = schedule.WithEdge(out[uid], schedule.JobEdge{Edge: edge, Verdict: verdictOn(j, u.Name)})
		}
	}
	return out, nil
}

// verdictOn is what a job has shown about the image of one of its devices. A failure that says nothing about the image counts
// only where it holds the node, because a person is needed then.
func verdictOn(j *v1alpha1.FirmwareJob, device string) schedule.Verdict {
	switch {
	case !j.Ended() && j.Blames(device):
		return schedule.OnTrial
	case !j.Ended():
		return schedule.Unknown
	case j.Failed() && j.FailureReason() == v1alpha1.ReasonUnhealthy && len(j.Status.Blamed) == 0:
		return schedule.Acquitted
	case !j.Failed():
		return schedule.Succeeded
	case !j.FailedOn(device):
		return schedule.Unknown
	case j.Held(), j.Blames(device), !saysNothing(j.FailureReason()):
		return schedule.Failed
	}
	return schedule.Unknown
}

// slow says that the node of a job boots slowly since: a node that is found healthy has no other complaint.
func slow(j *v1alpha1.FirmwareJob) string {
	if v := j.Status.Verdict; v != nil && v.Result == v1alpha1.HealthResultHealthy && !j.Failed() {
		return strings.TrimSuffix(strings.Join(v.Complaints, "; "), ".")
	}
	return ""
}

// saysNothing reports whether a failure for this reason says nothing about an image. Of those that do not pass, one is about a person and one
// about a disk.
func saysNothing(reason string) bool {
	return reason == v1alpha1.ReasonNoRunner || reason == v1alpha1.ReasonCancelled || reason == v1alpha1.ReasonUnlockUnavailable || step.Reason(reason).Passing()
}

// unlisted is the first update of a job that a person made whose rollback image neither the source that it names nor that of the device lists, as
// the node asks; nil where each is listed. A vendor's tool may take any file for a rollback, because the images of some devices do not say what they are for. The
// planner takes its rollback images from the sources, and they stay in store for the job when a source is edited afterwards.
func (r *Reconciler) unlisted(ctx context.Context, j *v1alpha1.FirmwareJob, sources []v1alpha1.FirmwareSource) (*schedule.UnlistedRollback, error) {
	if j.Labels[v1alpha1.ManagedByLabel] == v1alpha1.FieldOwnerOperator {
		return nil, nil
	}
	for _, u := range j.Spec.Task.Devices {
		if u.RollbackDigest == "" {
			continue
		}
		d := &v1alpha1.NodeDevice{}
		switch err := r.client.Get(ctx, types.NamespacedName{Name: u.Name}, d); {
		case apierrors.IsNotFound(err): // its daemon refuses the job
			continue
		case err != nil:
			return nil, fmt.Errorf("read node device %s: %w", u.Name, err)
		}
		version := cmp.Or(u.FromVersion, running(d))
		if d.Status.Applied != nil && d.Status.Applied.Digest == u.RollbackDigest {
			continue // the node flashed it
		}
		if !slices.ContainsFunc(sources, func(src v1alpha1.FirmwareSource) bool {
			return (src.Name == u.RollbackSource || src.Name == d.Spec.SourceName()) && lists(&src, u.RollbackDigest, d, version)
		}) {
			return &schedule.UnlistedRollback{Device: u.Name, Version: version, Digest: string(u.RollbackDigest)}, nil
		}
	}
	return nil, nil
}

// lists reports whether a source says that the image brings the device to the version. What names neither model nor board is
// believed only of the source that is assigned to the device, as the planner does.
func lists(src *v1alpha1.FirmwareSource, digest v1alpha1.Digest, d *v1alpha1.NodeDevice, version string) bool {
	own := d.Spec.SourceName() == src.Name
	return slices.ContainsFunc(src.Status.Images, func(i v1alpha1.StoredImage) bool {
		return i.Digest == digest && (own || len(i.Models)+len(i.BoardIDs) > 0) &&
			match.NewImage(i).For(match.DeviceOf(d), inventory.NormalizeVersion(version))
	})
}
