package kubectl

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/reading"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

// stopper is the field manager of a stop. Who owns the state of a policy, or the cancellation of a job, tells what a resume without names
// undoes: a person who changes the state afterwards owns it.
const stopper = writer + "-stop"

func (s *session) stopCommand() *cobra.Command {
	running := false
	c := &cobra.Command{
		Use:   "stop",
		Short: "Stop everything, now: no further job begins, and those that have written nothing end",
		Long: "Stop everything, now. Every policy is paused, so that no further job begins, and jobs that have written nothing yet are cancelled, and return their nodes. " +
			"Those that have written go on to their end, which is the safest one: each node comes back updated, or with what it ran before. " +
			"kubectl firmware resume goes on.",
		Example: "  kubectl firmware stop -m 'links flap after the update'\n" +
			"  kubectl firmware stop --running",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("stop stops everything, and takes no names. For one policy: kubectl firmware pause %s; for one job: kubectl firmware cancel JOB", args[0])
			}
			return nil
		},
	}
	c.Flags().BoolVar(&running, "running", false, "cancel the jobs too that have written; each ends after its step and holds its node, out of service, until a retry or a release")
	w := writingOf(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		api, by, err := s.begin(c.Context(), w)
		if err != nil {
			return err
		}
		w.others = "Not stopped"
		policies, err := s.policies(c.Context(), api, isActive)
		s.unlisted(w, "policies", err)
		decisions := decisionsOf(policies, func(ctx context.Context, name string) (*write, error) {
			p := &v1alpha1.RolloutPolicy{}
			err := api.Get(ctx, client.ObjectKey{Name: strings.TrimPrefix(name, "policy/")}, p)
			if err != nil || !isActive(p) {
				return nil, client.IgnoreNotFound(err)
			}
			one, err := pause(p)
			if err != nil {
				return nil, err
			}
			one.manager, one.action, one.did = stopper, "Stop", "stopped"
			one.will = fmt.Sprintf("Policy %s begins no further job%s.", p.Name, queued(p))
			return one, nil
		})
		jobs, left, err := jobsToStop(c.Context(), api, running)
		s.unlisted(w, "jobs", err)
		for _, j := range left {
			s.say("Job %s on %s goes on: it has written firmware. %s To end it too: kubectl firmware stop --running", j.Name, j.Spec.NodeName, atStep(j))
		}
		for _, known := range jobs {
			decisions = append(decisions, known.stop(api, running))
		}
		if err := s.do(c.Context(), w, by, decisions); err != nil || w.isDryRun() || len(decisions) == 0 {
			return err
		}
		late, _, err := jobsToStop(c.Context(), api, running)
		if len(late) > 0 {
			var names []string
			for _, j := range late {
				names = append(names, j.job.Name)
			}
			s.say("Admitted before its policy was paused, and not cancelled: %s. To end that too, type the command again", text.Some(names, 5))
		}
		return err
	}
	return c
}

// unlisted says that there may be more than what the verb goes on with.
func (s *session) unlisted(w *writing, what string, err error) {
	if err != nil {
		w.unread++
		s.say("The %s were not read, and may be more than what follows: %s", what, s.explain(err))
	}
}

// isStopped reports whether a policy is paused because of a stop alone: nobody has set its state since, or as well.
func isStopped(o client.Object) bool { return slices.Equal(ownersOf(o, "state"), []string{stopper}) }

// wasStopped reports whether a stop cancelled the job. A cancellation cannot be taken back, and a person can only hurry it.
func wasStopped(j *v1alpha1.FirmwareJob) bool {
	return j.Spec.Cancel != nil && slices.Contains(ownersOf(j, "cancel"), stopper)
}

// ownersOf are the field managers of a field of the spec of an object.
func ownersOf(o client.Object, field string) (out []string) {
	for _, m := range o.GetManagedFields() {
		var of struct {
			Spec map[string]json.RawMessage `json:"f:spec"`
		}
		if m.FieldsV1 == nil || json.Unmarshal(m.FieldsV1.GetRawBytes(), &of) != nil {
			continue
		}
		if _, has := of.Spec["f:"+field]; has && !slices.Contains(out, m.Manager) {
			out = append(out, m.Manager)
		}
	}
	return out
}

// jobToStop is a job that a stop cancels, with the jobs of its node.
type jobToStop struct {
	job *v1alpha1.FirmwareJob
	of  *nodeFacts
}

// jobsToStop are the jobs to be cancelled, and those that are left to their end. All come from one list, because a large fleet has many.
func jobsToStop(ctx context.Context, api client.Reader, running bool) (out []*jobToStop, left []*v1alpha1.FirmwareJob, err error) {
	nodes := map[string]*nodeFacts{}
	err = reading.Each(ctx, api, &v1alpha1.FirmwareJobList{}, nil, func(j *v1alpha1.FirmwareJob) error {
		of := nodes[j.Spec.NodeName]
		if of == nil {
			of = &nodeFacts{node: &v1alpha1.NodeFirmware{}}
			nodes[j.Spec.NodeName] = of
		}
		if j.Failed() { // it says whether the node was held before
			of.jobs = append(of.jobs, v1alpha1.FirmwareJob{ObjectMeta: metav1.ObjectMeta{Name: j.Name}, Status: v1alpha1.FirmwareJobStatus{Conditions: j.Status.Conditions}})
		}
		switch {
		case isToStop(j, running):
			out = append(out, &jobToStop{j, of})
		case isToStop(j, true):
			left = append(left, j)
		}
		return nil
	})
	return out, left, err
}

// stop decides the cancellation of the job as it was listed, and reads it again where it has changed since.
func (k *jobToStop) stop(api client.Client, running bool) decision {
	listed := true
	return func(ctx context.Context) (*write, error) {
		if !listed {
			if err := api.Get(ctx, client.ObjectKeyFromObject(k.job), k.job); err != nil {
				return nil, client.IgnoreNotFound(err)
			}
		}
		listed = false
		if !isToStop(k.job, running) {
			return nil, nil //nolint:nilnil // nothing is to be done
		}
		one, err := k.of.cancel(k.job, v1alpha1.JobCancel{})
		if err != nil {
			return nil, err
		}
		one.manager = stopper
		return one, nil
	}
}

// isToStop reports whether a stop cancels the job: it is admitted, no cancellation would come too late, and it has written nothing, or those
// that have are meant too.
func isToStop(j *v1alpha1.FirmwareJob, running bool) bool {
	return j.Admitted() && !j.Ended() && j.Spec.Cancel == nil && !isReturning(j) && (running || !hasWritten(j))
}
