package kubectl

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/desired"
	"github.com/nodefirmware/node-firmware-operator/internal/explain"
	"github.com/nodefirmware/node-firmware-operator/internal/wayout"
)

// History is what was done on a node, or to a device: the jobs that are kept, the newest first.
type History struct {
	metav1.TypeMeta `json:",inline"`
	Of              string    `json:"of"`
	Jobs            []PastJob `json:"jobs"`
}

// PastJob is a job, or what it did to one device.
type PastJob struct {
	Name   string           `json:"name"`
	Type   v1alpha1.JobType `json:"type"`
	Start  *metav1.Time     `json:"startTime,omitempty"`
	End    *metav1.Time     `json:"completionTime,omitempty"`
	Reason string           `json:"reason"`
	Says   string           `json:"says"`
	// Updates are what it was to bring devices to.
	Updates []string `json:"updates,omitempty"`
}

// DeepCopyObject makes a result printable; nothing changes it.
func (h *History) DeepCopyObject() runtime.Object { out := *h; return &out }

func (h *History) text(p page) error {
	if len(h.Jobs) == 0 {
		return nil
	}
	var rows [][]string
	for _, j := range h.Jobs {
		took := ""
		if j.Start != nil && j.End != nil {
			took = j.End.Sub(j.Start.Time).Round(time.Second).String()
		}
		start := ""
		if j.Start != nil {
			start = stamp(j.Start)
		}
		row := []string{start, j.Name, string(j.Type), j.Reason, took, strings.Join(j.Updates, "; ")}
		if p.wide {
			row = append(row, j.Says)
		}
		rows = append(rows, row)
	}
	header := []string{"BEGAN", "JOB", "TYPE", "RESULT", "TOOK", "WHAT"}
	if p.wide {
		header = append(header, "SAYS")
	}
	return p.table(header, rows, 1, 5, len(header)-1)
}

func (s *session) historyCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "history NODE|DEVICE",
		Short: "List what jobs have done on a node, or to a device, the newest first",
		Long:  "List what jobs have done on a node, or to a device, the newest first. Of the jobs that have ended, the last ten of each type are kept.",
		Example: "  kubectl firmware history gpu-017\n" +
			"  kubectl firmware history gpu-017-nic-b83fd2a1c4e0 -o wide",
		Args:              wantOne("kubectl firmware history gpu-017"),
		ValidArgsFunction: s.completeNames("NodeFirmware", "NodeDevice"),
	}
	out := outputOf(c, false)
	c.RunE = func(c *cobra.Command, args []string) error {
		api, err := s.connect()
		if err != nil {
			return err
		}
		h, err := historyOf(c.Context(), api, args[0])
		if err != nil {
			return err
		}
		if len(h.Jobs) == 0 {
			s.say("No job of %s is kept.", h.Of)
		}
		return out.print(s.Out, h)
	}
	return c
}

func historyOf(ctx context.Context, api client.Reader, name string) (*History, error) {
	o, err := lookUp(ctx, api, name)
	if err != nil {
		return nil, err
	}
	node, device := o.GetName(), ""
	switch o := o.(type) {
	case *v1alpha1.NodeFirmware:
	case *v1alpha1.NodeDevice:
		node, device = o.Spec.NodeName, o.Name
	default:
		return nil, fmt.Errorf("%s is neither a node nor a device", named(o))
	}
	g := &explain.Gathering{Ctx: ctx, API: api}
	jobs := g.JobsOf(node)
	if g.Err != nil {
		return nil, g.Err
	}
	out := &History{TypeMeta: metav1.TypeMeta{APIVersion: resultVersion, Kind: "History"}, Of: named(o), Jobs: []PastJob{}}
	for _, j := range jobs {
		if device == "" || desired.UpdateFor(j, device) != nil || slices.Contains(written(j), device) {
			out.Jobs = append(out.Jobs, pastJob(j, device))
		}
	}
	return out, nil
}

// pastJob is what a job did: to all of its devices, or to one.
func pastJob(j *v1alpha1.FirmwareJob, device string) PastJob {
	c := explain.DecidingOf(j)
	said, _ := wayout.Ways(c.Message)
	out := PastJob{Name: j.Name, Type: j.Spec.Task.Type, Start: j.Status.StartTime, End: j.Status.CompletionTime, Reason: c.Reason, Says: said}
	for _, u := range j.Spec.Task.Devices {
		if device != "" && u.Name != device {
			continue
		}
		what := u.Name
		if u.Version != "" {
			what += " " + strings.TrimPrefix(fmt.Sprintf("%s -> %s", u.FromVersion, u.Version), " ")
		}
		out.Updates = append(out.Updates, what)
	}
	for _, s := range j.Spec.Task.Steps {
		out.Updates = append(out.Updates, strings.TrimSuffix(s.Name+" "+s.Device, " "))
	}
	return out
}
