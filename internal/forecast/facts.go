package forecast

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/desired"
	"github.com/nodefirmware/node-firmware-operator/internal/due"
	"github.com/nodefirmware/node-firmware-operator/internal/lifetime"
	"github.com/nodefirmware/node-firmware-operator/internal/match"
	"github.com/nodefirmware/node-firmware-operator/internal/quarantine"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
)

// Facts are the objects of the cluster, with those that are to be foretold in place of them.
type Facts struct {
	Now time.Time
	// Nodes are those of the cluster, by what is read from the Node alone.
	Nodes []schedule.Node
	// Firmware are the NodeFirmwares.
	Firmware       []*v1alpha1.NodeFirmware
	Devices        []*v1alpha1.NodeDevice
	Jobs           []*v1alpha1.FirmwareJob
	Templates      []*v1alpha1.FirmwareTemplate
	Configurations []*v1alpha1.ConfigurationTemplate
	Sources        []v1alpha1.FirmwareSource
	Policies       []v1alpha1.RolloutPolicy
	Quarantines    []v1alpha1.FirmwareQuarantine
	Catalogs       []v1alpha1.FirmwareCatalog
}

// play is a forecast in the making.
type play struct {
	Facts
	ix       *match.Index
	bad      quarantine.Set
	firmware map[string]*v1alpha1.NodeFirmware
	devices  map[string][]*v1alpha1.NodeDevice  // by node
	jobs     map[string][]*v1alpha1.FirmwareJob // by node: those that matter
	labels   map[string]map[string]string
	refs     map[match.Ref]int // with their priority
	limits   lifetime.Limits
	took     schedule.Durations
	out      *Forecast
}

func newPlay(f Facts) *play {
	p := &play{
		Facts: f, ix: match.NewIndex(), firmware: map[string]*v1alpha1.NodeFirmware{}, devices: map[string][]*v1alpha1.NodeDevice{},
		jobs: map[string][]*v1alpha1.FirmwareJob{}, labels: map[string]map[string]string{}, refs: map[match.Ref]int{}, limits: lifetime.Of(f.Catalogs),
		out: &Forecast{Tallies: map[match.Ref]match.Tally{}},
	}
	for i := range f.Policies {
		p.ix.SetPolicy(&f.Policies[i])
	}
	for i := range f.Sources {
		p.ix.SetSource(&f.Sources[i])
	}
	for i := range f.Quarantines {
		p.ix.SetQuarantine(&f.Quarantines[i])
	}
	for _, t := range f.Templates {
		p.refs[match.Ref{Kind: v1alpha1.OriginTemplate, Name: t.Name}] = int(t.Spec.Priority)
		p.ix.SetTemplate(t)
	}
	for _, t := range f.Configurations {
		p.refs[match.Ref{Kind: v1alpha1.OriginConfiguration, Name: t.Name}] = int(t.Spec.Priority)
		p.ix.SetConfigurationTemplate(t)
	}
	for i := range f.Nodes {
		p.labels[f.Nodes[i].Name] = f.Nodes[i].Labels
		p.ix.SetNode(f.Nodes[i].Name, f.Nodes[i].Labels)
	}
	for _, n := range f.Firmware {
		p.firmware[n.Name] = n
		p.ix.SetNodeFirmware(n)
	}
	for _, d := range f.Devices {
		p.devices[d.Spec.NodeName] = append(p.devices[d.Spec.NodeName], d)
		p.ix.SetDevice(d)
	}
	all, failed := make(map[string]*v1alpha1.FirmwareJob, len(f.Jobs)), map[string]bool{}
	for _, j := range f.Jobs {
		all[string(j.UID)] = j
		failed[j.Spec.NodeName] = failed[j.Spec.NodeName] || j.Failed()
	}
	p.took.Learn(all)
	for _, j := range f.Jobs { // one that succeeded says nothing but where one failed before
		if failed[j.Spec.NodeName] || !j.Ended() {
			p.jobs[j.Spec.NodeName] = append(p.jobs[j.Spec.NodeName], j)
		}
	}
	pools := quarantine.NewPools(f.Policies)
	p.bad = quarantine.Compute(quarantine.Facts{
		Jobs: f.Jobs, Quarantines: f.Quarantines, Now: f.Now, Pool: func(node string) string { return pools.Of(p.labels[node]) },
	})
	p.Facts.Jobs, p.Facts.Devices = nil, nil // what is not needed any more may be collected
	return p
}

// dueOf is what is known of a node, in the terms of who plans its jobs.
func (p *play) dueOf(n *schedule.Node, devices []v1alpha1.NodeDevice) due.Facts {
	firmware := p.firmware[n.Name]
	f := due.Facts{
		Name: n.Name, Now: p.Now, NodeUID: "known", Retry: desired.Retry(firmware), Devices: devices,
		Settings: schedule.SettingsOf(p.Policies, n.Labels), Sources: p.Sources, Quarantines: p.Quarantines, Bad: p.bad,
	}
	if firmware != nil {
		f.Answered, f.HeldBy = firmware.Status.Requests.Retry, firmware.Status.HeldBy
	}
	for _, j := range p.jobs[n.Name] {
		never := !j.Admitted() && (j.DeletionTimestamp != nil || j.Spec.Cancel != nil)
		if j.Ended() || j.Spec.Task.Type != v1alpha1.JobTypeBackup && !never { // a backup disturbs nobody
			f.Jobs = append(f.Jobs, *j)
		}
	}
	desired.SortJobs(f.Jobs)
	return f
}

// unhealthy are the devices of a node that a job left unhealthy and no request has cleared.
func (p *play) unhealthy(node string) (out []schedule.UnhealthyDevice) {
	for _, d := range p.devices[node] {
		if d.Status.IsUnhealthy() && !desired.Retry(p.firmware[node]).Clears(&d.Status.Failure.Request) {
			out = append(out, schedule.UnhealthyDevice{Name: d.Name, Job: d.Status.Failure.Job})
		}
	}
	return out
}

// strangers are the devices of nodes that are gone: the operator decides nothing about them.
func (p *play) strangers() {
	for node, devices := range p.devices {
		if _, known := p.labels[node]; known {
			continue
		}
		for _, d := range devices {
			out := describe(d)
			out.Reason, out.Message = v1alpha1.ReasonNodeGone, "There is no Node "+node+"."
			p.out.Devices = append(p.out.Devices, out)
		}
	}
}

func isTrue(d *v1alpha1.NodeDevice, kind string) bool {
	return meta.IsStatusConditionTrue(d.Status.Conditions, kind)
}
