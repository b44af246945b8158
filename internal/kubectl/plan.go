package kubectl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/forecast"
	"github.com/nodefirmware/node-firmware-operator/internal/neighbour"
	"github.com/nodefirmware/node-firmware-operator/internal/reading"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
	"github.com/nodefirmware/node-firmware-operator/internal/trim"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

func (s *session) planCommand() *cobra.Command {
	var files []string
	var perDevice bool
	c := &cobra.Command{
		Use:   "plan [-f FILE...]",
		Short: "Say what would change and reboot if the objects of files were applied",
		Long: "Say what would change and which nodes would reboot if the objects of files were applied: FirmwareTemplates, ConfigurationTemplates, RolloutPolicies, FirmwareSources and " +
			"NodeFirmwares with pins. Without files: what the operator is about to do as it is. The API server checks the objects, and nothing is written. The exit code is 0 where no device " +
			"changes, 2 where one does, and 1 after an error.",
		Example: "  kubectl firmware plan -f templates/\n" +
			"  kubectl firmware plan -f template.yaml -f source.yaml --nodes\n" +
			"  kubectl firmware plan",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return errors.New("name files with -f, such as: kubectl firmware plan -f template.yaml")
			}
			return nil
		},
	}
	c.Flags().StringSliceVarP(&files, "filename", "f", nil, "files or directories with the objects, or - for the input")
	c.Flags().BoolVar(&perDevice, "nodes", false, "a row for each device, by node; so does -o wide")
	out := outputOf(c, true)
	c.RunE = func(c *cobra.Command, _ []string) error {
		printer, err := out.printer()
		if err != nil {
			return err
		}
		facts, objects, err := s.proposed(c.Context(), files)
		if err != nil {
			return err
		}
		p := planOf(forecast.Make(facts), objects)
		p.perDevice, p.now = perDevice, facts.Now
		if printer != nil && *out.flags.OutputFormat == "name" {
			err = printObjects(printer, "name", p.names(), s.Out)
		} else {
			err = out.print(s.Out, p)
		}
		for _, w := range p.Warnings {
			s.say("%s", w)
		}
		if err == nil && p.Summary.Changes() {
			return errDiffers
		}
		return err
	}
	return c
}

// proposed are the facts of a forecast with the objects of the files in place of those of the cluster.
func (s *session) proposed(ctx context.Context, files []string) (facts forecast.Facts, objects []client.Object, err error) {
	proposals, err := s.readProposals(files)
	if err != nil {
		return facts, nil, err
	}
	api, err := s.connect()
	if err != nil {
		return facts, nil, err
	}
	objects, unchecked, err := asApplied(ctx, api, proposals)
	if err != nil {
		return facts, nil, err
	}
	if len(unchecked) > 0 {
		s.say("You may not write %s, so the API server did not check it; it is planned as it is in the file.", text.Some(unchecked, 5))
	}
	debug.SetGCPercent(50) // a fleet of thousands is a lot of memory for a command, and a little time
	if facts, err = gatherPlan(ctx, api, s.now()); err != nil {
		return facts, nil, err
	}
	for _, o := range objects {
		s.propose(&facts, o)
	}
	return facts, objects, nil
}

// gatherPlan reads what a forecast is made from, a page at a time, and keeps what it needs.
func gatherPlan(ctx context.Context, api client.Reader, now time.Time) (f forecast.Facts, err error) {
	f.Now = now
	err = reading.Each(ctx, api, &corev1.NodeList{}, nil, func(n *corev1.Node) error {
		out := schedule.Node{Name: n.Name, Labels: n.Labels, Cordoned: n.Spec.Unschedulable, Taken: neighbour.Has(n)}
		if n.Annotations[v1alpha1.CordonedAnnotation] == "" { // a cordon of the operator's own ends with its job
			out.Taken = cmp.Or(out.Taken, neighbour.Cordoned(n))
		}
		for _, c := range n.Status.Conditions {
			out.Ready = out.Ready || c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		}
		f.Nodes = append(f.Nodes, out)
		return nil
	})
	if err != nil {
		return f, err
	}
	slices.SortFunc(f.Nodes, func(a, b schedule.Node) int { return strings.Compare(a.Name, b.Name) })
	err = errors.Join(
		reading.Each(ctx, api, &v1alpha1.NodeFirmwareList{}, nil, func(n *v1alpha1.NodeFirmware) error {
			f.Firmware = append(f.Firmware, n)
			return trimmed(n)
		}),
		eachDevice(ctx, api, nil, func(d *v1alpha1.NodeDevice) error {
			f.Devices = append(f.Devices, d)
			parameters := slices.Clone(d.Status.Parameters) // what is stored counts too
			err := trimmed(d)
			d.Status.Parameters, d.Status.Applied = parameters, appliedOf(d)
			d.OwnerReferences, d.Finalizers, d.Labels = nil, nil, nil
			d.Status.Conditions = slices.DeleteFunc(d.Status.Conditions, func(c metav1.Condition) bool {
				return !slices.Contains([]string{v1alpha1.ConditionInspected, v1alpha1.ConditionConflict, v1alpha1.ConditionBlocked, v1alpha1.ConditionReconciling}, c.Type)
			})
			return err
		}),
		reading.Each(ctx, api, &v1alpha1.FirmwareJobList{}, nil, func(j *v1alpha1.FirmwareJob) error {
			f.Jobs = append(f.Jobs, j)
			if j.Ended() && !j.Failed() {
				j.Status.Steps = nil
			}
			return trimmed(j)
		}),
		reading.Each(ctx, api, &v1alpha1.RolloutPolicyList{}, nil, func(p *v1alpha1.RolloutPolicy) error {
			f.Policies = append(f.Policies, *p)
			return nil
		}),
		reading.Each(ctx, api, &v1alpha1.FirmwareSourceList{}, nil, func(o *v1alpha1.FirmwareSource) error {
			f.Sources = append(f.Sources, *o)
			return nil
		}),
		reading.Each(ctx, api, &v1alpha1.FirmwareQuarantineList{}, nil, func(q *v1alpha1.FirmwareQuarantine) error {
			f.Quarantines = append(f.Quarantines, *q)
			return nil
		}),
		reading.Each(ctx, api, &v1alpha1.FirmwareCatalogList{}, nil, func(c *v1alpha1.FirmwareCatalog) error {
			f.Catalogs = append(f.Catalogs, *c)
			return nil
		}),
	)
	if err != nil {
		return f, err
	}
	if f.Templates, err = reading.All[*v1alpha1.FirmwareTemplate](ctx, api, &v1alpha1.FirmwareTemplateList{}, nil); err != nil {
		return f, err
	}
	f.Configurations, err = reading.All[*v1alpha1.ConfigurationTemplate](ctx, api, &v1alpha1.ConfigurationTemplateList{}, nil)
	return f, err
}

func trimmed(o client.Object) error {
	o.SetAnnotations(nil)
	_, err := trim.Object(o)
	return err
}

// appliedOf keeps of where the firmware of a device came from the image, which may be the one to roll back to.
func appliedOf(d *v1alpha1.NodeDevice) *v1alpha1.AppliedFirmware {
	if d.Status.Applied == nil {
		return nil
	}
	return &v1alpha1.AppliedFirmware{Digest: d.Status.Applied.Digest}
}

// propose puts an object in the place of the one that the cluster has.
func (s *session) propose(f *forecast.Facts, o client.Object) {
	switch o := o.(type) {
	case *v1alpha1.FirmwareTemplate:
		f.Templates = replaced(f.Templates, o)
	case *v1alpha1.ConfigurationTemplate:
		f.Configurations = replaced(f.Configurations, o)
	case *v1alpha1.NodeFirmware:
		f.Firmware = replaced(f.Firmware, o)
	case *v1alpha1.RolloutPolicy:
		f.Policies = append(slices.DeleteFunc(f.Policies, func(p v1alpha1.RolloutPolicy) bool { return p.Name == o.Name }), *o)
	case *v1alpha1.FirmwareSource:
		before := slices.IndexFunc(f.Sources, func(p v1alpha1.FirmwareSource) bool { return p.Name == o.Name })
		if before < 0 || f.Sources[before].Generation != o.Generation {
			s.say("Source %s is planned as if its files were fetched and verified.", o.Name)
		}
		f.Sources = append(slices.DeleteFunc(f.Sources, func(p v1alpha1.FirmwareSource) bool { return p.Name == o.Name }), *o)
	}
}

func replaced[O client.Object](all []O, by O) []O {
	return append(slices.DeleteFunc(all, func(o O) bool { return o.GetName() == by.GetName() }), by)
}

// Plan is what would change in the cluster.
type Plan struct {
	metav1.TypeMeta `json:",inline"`
	Summary         PlanSummary `json:"summary"`
	// Nodes are those with a job that begins without a person.
	Nodes []PlanNode `json:"nodes"`
	// Devices are those that change, or would if something did not keep them.
	Devices []PlanDevice `json:"devices"`
	// Stays counts the devices that stay as they are, by why.
	Stays []PlanStays `json:"stays"`
	// Warnings are what a person should look at before applying.
	Warnings []string `json:"warnings,omitempty"`

	perDevice bool
	now       time.Time
}

// PlanSummary is the whole in numbers.
type PlanSummary struct {
	// Reboots are the nodes that are rebooted: RebootsOnce once, the others more often. MayReboot are those of which that is not known, and Drained those
	// that are at most taken out of service. InService are all others.
	Reboots     int `json:"reboots"`
	RebootsOnce int `json:"rebootsOnce"`
	MayReboot   int `json:"mayReboot"`
	Drained     int `json:"drained"`
	InService   int `json:"inService"`
	// Firmware and Settings count devices that get them without a person; Waiting those that get something after a person acted.
	Firmware int `json:"firmware"`
	Settings int `json:"settings"`
	Waiting  int `json:"waiting"`
	// Assigned are those of all of these that the cluster wants already.
	Assigned int `json:"assigned"`
	Waves    int `json:"waves"`
	// Ends is when all is done, and Took how long that is from the first job on. Assumed counts the jobs of which nobody knows how long they take, so that the operator's default was taken.
	Ends       *metav1.Time `json:"ends,omitempty"`
	Took       string       `json:"duration,omitempty"`
	Jobs       int          `json:"jobs"`
	Assumed    int          `json:"assumed"`
	NextWindow *metav1.Time `json:"nextWindow,omitempty"`
	Rough      string       `json:"rough,omitempty"`
}

// Changes reports whether any device changes.
func (p PlanSummary) Changes() bool { return p.Firmware+p.Settings+p.Waiting+p.Jobs > 0 }

// PlanNode is a node that is disturbed.
type PlanNode struct {
	Name    string          `json:"name"`
	Impact  forecast.Impact `json:"impact"`
	Reboots int             `json:"reboots,omitempty"`
	Jobs    []PlanJob       `json:"jobs"`
}

// PlanJob is one maintenance.
type PlanJob struct {
	Name       string          `json:"name,omitempty"`
	Running    bool            `json:"running,omitempty"`
	Activation string          `json:"activation"`
	Impact     forecast.Impact `json:"impact"`
	Devices    []string        `json:"devices"`
	Policy     string          `json:"policy,omitempty"`
	Wave       string          `json:"wave,omitempty"`
	Starts     *metav1.Time    `json:"starts,omitempty"`
	Took       string          `json:"duration"`
	Waits      string          `json:"waits,omitempty"`
	Message    string          `json:"message,omitempty"`
}

// PlanDevice is a device that changes.
type PlanDevice struct {
	Name       string               `json:"name"`
	Node       string               `json:"node"`
	Class      v1alpha1.DeviceClass `json:"class"`
	Model      string               `json:"model"`
	Path       []string             `json:"path"`
	Settings   []forecast.Setting   `json:"settings,omitempty"`
	Activation string               `json:"activation,omitempty"`
	By         string               `json:"by,omitempty"`
	Assigned   bool                 `json:"assigned"`
	Reason     string               `json:"reason,omitempty"`
	Message    string               `json:"message,omitempty"`
	Policy     string               `json:"policy,omitempty"`
	Wave       string               `json:"wave,omitempty"`
	Starts     *metav1.Time         `json:"starts,omitempty"`
	Took       string               `json:"duration,omitempty"`
}

// PlanStays are the devices that stay as they are for one reason.
type PlanStays struct {
	Reason  string `json:"reason"`
	Devices int    `json:"devices"`
	// First of them in order of node, and what is said of it.
	First   string `json:"first"`
	Message string `json:"message"`
}

// DeepCopyObject makes a result printable; nothing changes it.
func (p *Plan) DeepCopyObject() runtime.Object { out := *p; return &out }

// planOf says what a forecast comes to.
func planOf(f *forecast.Forecast, proposed []client.Object) *Plan {
	out := &Plan{TypeMeta: metav1.TypeMeta{APIVersion: resultVersion, Kind: "Plan"}, Nodes: []PlanNode{}, Devices: []PlanDevice{}, Stays: []PlanStays{}}
	nodes := make(map[string]*forecast.Node, len(f.Nodes))
	for _, n := range f.Nodes {
		nodes[n.Name] = n
		out.addNode(f, n)
	}
	stays := map[string]*PlanStays{}
	for _, d := range f.Devices {
		if out.addDevice(d, nodes[d.Node]) {
			continue
		}
		if stays[d.Reason] == nil {
			stays[d.Reason] = &PlanStays{Reason: d.Reason, First: d.Name, Message: d.Message}
		}
		stays[d.Reason].Devices++
	}
	for _, reason := range slices.Sorted(maps.Keys(stays)) {
		out.Stays = append(out.Stays, *stays[reason])
	}
	for _, p := range f.Pools {
		out.Summary.Waves = max(out.Summary.Waves, len(p.Waves))
		if !p.Opens.IsZero() && (out.Summary.NextWindow == nil || p.Opens.Before(out.Summary.NextWindow.Time)) {
			out.Summary.NextWindow = &metav1.Time{Time: p.Opens}
		}
	}
	if !f.Ends.IsZero() {
		out.Summary.Ends, out.Summary.Took = &metav1.Time{Time: f.Ends}, length(f.Ends.Sub(f.Begins()))
	}
	if f.Cut {
		out.Summary.Rough = "the end of a long rollout was extrapolated"
	}
	out.warn(f, proposed)
	return out
}

func (p *Plan) addNode(f *forecast.Forecast, n *forecast.Node) {
	switch n.Impact {
	case forecast.Reboots:
		if p.Summary.Reboots++; n.Reboots == 1 {
			p.Summary.RebootsOnce++
		}
	case forecast.MayReboot:
		p.Summary.MayReboot++
	case forecast.Drained:
		p.Summary.Drained++
	case forecast.InService:
		p.Summary.InService++
	}
	if len(n.Jobs) == 0 {
		return
	}
	out := PlanNode{Name: n.Name, Impact: n.Impact, Reboots: n.Reboots}
	for _, j := range n.Jobs {
		one := PlanJob{Name: j.Name, Running: j.Running, Activation: j.Activation, Impact: j.Impact, Policy: j.Policy, Wave: j.Wave, Took: "unknown",
			Waits: string(j.Waits), Message: j.Message, Devices: []string{}}
		if p.Summary.Jobs++; j.Took > 0 {
			one.Took = length(j.Took)
		} else if j.Goes() {
			p.Summary.Assumed++
		}
		if j.Goes() {
			one.Starts = &metav1.Time{Time: j.Starts}
		}
		for _, at := range j.Devices {
			one.Devices = append(one.Devices, f.Devices[at].Name)
		}
		out.Jobs = append(out.Jobs, one)
	}
	p.Nodes = append(p.Nodes, out)
}

// addDevice adds a device that changes, and reports whether it is one.
func (p *Plan) addDevice(d *forecast.Device, n *forecast.Node) bool {
	if !d.Changes() {
		return false
	}
	out := PlanDevice{Name: d.Name, Node: d.Node, Class: d.Class, Model: d.Model, Path: d.Path, Settings: d.Settings, Activation: d.Activation, By: d.By,
		Assigned: d.Assigned, Reason: d.Reason, Message: d.Message}
	first := n.Jobs[d.Jobs[0]]
	out.Policy, out.Wave = first.Policy, first.Wave
	took := time.Duration(0)
	for _, at := range d.Jobs {
		if took += n.Jobs[at].Took; n.Jobs[at].Took == 0 {
			took = -365 * 24 * time.Hour // unknown together with any other
		}
	}
	out.Took = "unknown"
	if took > 0 {
		out.Took = length(took)
	}
	if d.Assigned {
		p.Summary.Assigned++
	}
	if !first.Goes() {
		p.Summary.Waiting++
		p.Devices = append(p.Devices, out)
		return true
	}
	out.Starts = &metav1.Time{Time: first.Starts}
	if len(d.Path) > 1 {
		p.Summary.Firmware++
	}
	if len(d.Settings) > 0 {
		p.Summary.Settings++
	}
	p.Devices = append(p.Devices, out)
	return true
}

// warn says of the objects of the files what their authors may not have meant.
func (p *Plan) warn(f *forecast.Forecast, proposed []client.Object) {
	for _, o := range proposed {
		switch o := o.(type) {
		case *v1alpha1.FirmwareTemplate, *v1alpha1.ConfigurationTemplate:
			for ref, t := range f.Tallies {
				_, isFirmware := o.(*v1alpha1.FirmwareTemplate)
				if ref.Name != o.GetName() || isFirmware != (ref.Kind == v1alpha1.OriginTemplate) || t.Matched > 0 && t.Invalid == "" && !t.Paused {
					continue
				}
				if c := meta.FindStatusCondition(status.Template(ref.Name, t, nil, time.Time{}), v1alpha1.ConditionReady); c != nil {
					p.Warnings = append(p.Warnings, fmt.Sprintf("%s %s: %s", ref.Kind, ref.Name, c.Message))
				}
			}
		case *v1alpha1.RolloutPolicy:
			policy := schedule.PolicyOf(o, schedule.DefaultExpected)
			if wrong := cmp.Or(policy.Invalid, policy.Stopped); wrong != "" {
				p.Warnings = append(p.Warnings, fmt.Sprintf("RolloutPolicy %s admits no node: %s", o.Name, wrong))
			}
		}
	}
}

// names are the devices that change, for -o name.
func (p *Plan) names() runtime.Object {
	list := &v1alpha1.NodeDeviceList{}
	for _, d := range p.Devices {
		list.Items = append(list.Items, v1alpha1.NodeDevice{
			TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "NodeDevice"}, ObjectMeta: metav1.ObjectMeta{Name: d.Name},
		})
	}
	return list
}
