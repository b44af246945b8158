package kubectl

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/wayout"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
)

func (s *session) cancelCommand() *cobra.Command {
	force := false
	grace := time.Duration(0)
	c := &cobra.Command{
		Use:   "cancel JOB...",
		Short: "End a job; a write that runs is finished first, always",
		Long: "End a job. One that has written nothing returns its node to service. One that has written ends after its step and holds its node, cordoned, because nobody " +
			"has judged its firmware. A cancellation cannot be taken back, and a cancelled update is not queued again before a retry.",
		Example: "  kubectl firmware cancel gpu-017-1a2b3c4d -m 'wrong node'\n" +
			"  kubectl firmware cancel gpu-017-1a2b3c4d --grace-period 10m",
		Args:              wantSome("kubectl firmware cancel gpu-017-1a2b3c4d"),
		ValidArgsFunction: s.completeNames("FirmwareJob"),
	}
	c.Flags().BoolVar(&force, "force", false, "wait for no grace period, and begin no further round of a step that has rounds; ends no write either")
	c.Flags().DurationVar(&grace, "grace-period", 0, "how long a step that may be interrupted has to end by itself, at most 1h")
	w := writingOf(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		api, by, err := s.begin(c.Context(), w)
		if err != nil {
			return err
		}
		asked := v1alpha1.JobCancel{}
		if force {
			asked.Mode = v1alpha1.CancelForce
		}
		if grace != 0 {
			asked.GracePeriod = v1alpha1.Duration(grace.String())
		}
		return s.do(c.Context(), w, by, decisionsOf(args, func(ctx context.Context, name string) (*write, error) {
			j, err := object[*v1alpha1.FirmwareJob](ctx, api, "job", name)
			if err != nil {
				return nil, err
			}
			f, err := gatherJobs(ctx, api, j.Spec.NodeName)
			if err != nil {
				return nil, err
			}
			return f.cancel(j, asked)
		}))
	}
	return c
}

// cancel decides a cancellation of a job of the node.
func (f *nodeFacts) cancel(j *v1alpha1.FirmwareJob, asked v1alpha1.JobCancel) (*write, error) {
	forces := asked.Mode == v1alpha1.CancelForce
	switch {
	case j.Held():
		return nil, fmt.Errorf("job/%s has ended, and holds its node. To try again: kubectl firmware retry %s. To return it to service as it is: kubectl firmware release %[2]s",
			j.Name, j.Spec.NodeName)
	case j.Ended():
		return nil, fmt.Errorf("job/%s has ended already", j.Name)
	case j.Spec.Cancel != nil && (!forces || j.Spec.Cancel.Mode == v1alpha1.CancelForce):
		said := ""
		if c := meta.FindStatusCondition(j.Status.Conditions, v1alpha1.ConditionCancelling); c != nil {
			words, _ := wayout.Ways(c.Message)
			said = ": " + words
		}
		return nil, fmt.Errorf("job/%s is cancelled already%s", j.Name, said)
	case isReturning(j):
		return nil, fmt.Errorf("job/%s cannot be cancelled any more: %s", j.Name, cmp.Or(atStep(j), "it has failed already, and ends by itself."))
	}
	changed := copyOf(j)
	if j.Spec.Cancel != nil { // its grace period stays
		changed.Spec.Cancel.Mode = asked.Mode
	} else {
		changed.Spec.Cancel = &asked
	}
	will := f.afterCancel(j)
	if j.Spec.Task.Type == v1alpha1.JobTypeUpdate {
		will += " The update is not queued again before a retry."
	}
	return &write{old: j, changed: changed, will: will, did: "cancelled", action: "Cancel", reason: v1alpha1.ReasonCancelled}, nil
}

// afterCancel says what becomes of a job that is cancelled, and of its node.
func (f *nodeFacts) afterCancel(j *v1alpha1.FirmwareJob) string {
	node, stays := j.Spec.NodeName, ""
	if by := f.heldBefore(j); by != "" {
		stays = fmt.Sprintf(", and node %s stays out of service, held by job %s", node, by)
	}
	switch {
	case j.Spec.Task.Type == v1alpha1.JobTypeBackup:
		return fmt.Sprintf("Job %s ends%s. It reads only.", j.Name, cmp.Or(stays, ", and node "+node+" stays in service"))
	case f.tookOver(j):
		return strings.TrimSpace(fmt.Sprintf("Job %s ends and holds node %s, out of service: it has taken the node over from a failed job, and nobody has judged that. %s", j.Name, node, atStep(j)))
	case hasWritten(j):
		return strings.TrimSpace(fmt.Sprintf("Job %s ends after its step%s: it has written, and nobody has judged that. %s", j.Name,
			cmp.Or(stays, " and holds node "+node+", out of service"), atStep(j)))
	case stays != "":
		return fmt.Sprintf("Job %s ends%s: it has written nothing.", j.Name, stays)
	case j.Admitted():
		return fmt.Sprintf("Job %s ends and returns node %s to service: it has written nothing. If it begins to write meanwhile, that write is finished and the node is held.", j.Name, node)
	}
	return fmt.Sprintf("Job %s ends, and node %s is left as it is: nothing was begun.", j.Name, node)
}

// hasWritten reports whether a step of the job has begun that may change a device or the host.
func hasWritten(j *v1alpha1.FirmwareJob) bool {
	return slices.ContainsFunc(j.Status.Steps, hasBegunToWrite)
}

// hasBegunToWrite reports of a step what the daemon counts as a write: that one was begun which changes a device or the host.
func hasBegunToWrite(s v1alpha1.JobStep) bool {
	kind := plan.Kind(s.Name)
	known := plan.Definitions()
	at := slices.IndexFunc(known, func(d plan.Definition) bool { return d.Kind == kind })
	return s.Attempt > 0 && plan.Step{Kind: kind, Changes: at < 0 || known[at].Changes}.Writes() // one of a driver may change something
}

// isReturning reports whether the job has failed already, rolls back, or returns its node, which no cancellation ends. Drives that erase themselves
// are given up by force also where another one has failed.
func isReturning(j *v1alpha1.FirmwareJob) bool {
	erases := func(s v1alpha1.JobStep) bool {
		return s.State == v1alpha1.StepRunning && plan.Kind(s.Name) == plan.Erase
	}
	return !slices.ContainsFunc(j.Status.Steps, erases) && slices.ContainsFunc(j.Status.Steps, func(s v1alpha1.JobStep) bool {
		return s.State == v1alpha1.StepFailed || s.State == v1alpha1.StepRunning && (s.Part == v1alpha1.PartRollback || plan.Kind(s.Name) == plan.Release)
	})
}

// atStep says which step of a job runs.
func atStep(j *v1alpha1.FirmwareJob) string {
	for _, s := range j.Status.Steps {
		if s.State != v1alpha1.StepRunning {
			continue
		}
		of := ""
		if s.Device != "" {
			of = " of " + s.Device
		}
		part := ""
		if s.Part == v1alpha1.PartRollback {
			part = " and brings back what ran before"
		}
		return fmt.Sprintf("Step %s%s runs%s.", s.Name, of, part)
	}
	return ""
}
