package rollout

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/match"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

// maxMessage bounds the messages of a record, as the API does.
const maxMessage = 1024

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
		edges, err := schedule.EdgesOf(j, func(device string) (string, error) { return r.model(ctx, device) })
		if err != nil {
			return nil, err
		}
		if len(edges) > 0 {
			out[uid] = edges
		}
	}
	return out, nil
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
