package job

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/match"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// granted is that a person wants exactly what is assigned to the device.
func granted(d v1alpha1.NodeDevice) wishes {
	w := wishes{templates: map[string]v1alpha1.FirmwareTemplate{}, sources: map[string]v1alpha1.FirmwareSource{}}
	f := d.Spec.Firmware
	if f == nil {
		return w
	}
	file := func(digest v1alpha1.Digest, version string) v1alpha1.FirmwareFile {
		return v1alpha1.FirmwareFile{Digest: digest, Images: []v1alpha1.ImageDescription{{Class: d.Status.Class, Vendor: v1alpha1.AnyVendor, Version: version}}}
	}
	source := v1alpha1.FirmwareSource{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: v1alpha1.FirmwareSourceSpec{Files: []v1alpha1.FirmwareFile{file(f.Digest, f.Version)}}}
	for _, p := range f.Path {
		source.Spec.UpgradePaths = append(source.Spec.UpgradePaths, p.UpgradePath)
		if p.Via != "" {
			source.Spec.Files = append(source.Spec.Files, file(p.Digest, p.Via))
		}
	}
	w.sources["s"] = source
	w.templates["t"] = v1alpha1.FirmwareTemplate{ObjectMeta: metav1.ObjectMeta{Name: "t"}, Spec: v1alpha1.FirmwareTemplateSpec{Rules: []v1alpha1.FirmwareRule{{
		Name: "r", Selector: v1alpha1.DeviceSelector{Class: d.Status.Class, Vendor: v1alpha1.AnyVendor}, Version: f.Version,
		SourceRef: v1alpha1.SourceReference{Name: "s"}, Policy: f.Policy, Downgrade: f.Downgrade,
	}}}}
	return w
}

// An operator that was taken over assigns what it likes, and makes jobs that agree with that. What a person wrote decides.
func TestOnlyWhatAPersonWantsIsFlashed(t *testing.T) {
	type device = v1alpha1.NodeDevice
	type template = v1alpha1.FirmwareTemplate
	type source = v1alpha1.FirmwareSource
	ofTemplate := func(change func(*template)) func(*wishes) {
		return func(w *wishes) { o := w.templates["t"]; change(&o); w.templates["t"] = o }
	}
	ofSource := func(change func(*source)) func(*wishes) {
		return func(w *wishes) { o := w.sources["s"]; change(&o); w.sources["s"] = o }
	}
	pin := func(version string, s v1alpha1.DeviceSelector) func(*wishes) {
		return func(w *wishes) {
			s.Class = v1alpha1.ClassNIC
			w.node.Spec.Pins = append(w.node.Spec.Pins, v1alpha1.FirmwareRule{Name: "p" + version, Selector: s, Version: version, SourceRef: v1alpha1.SourceReference{Name: "s"}})
		}
	}
	anyNIC, thisNIC := v1alpha1.DeviceSelector{Vendor: v1alpha1.AnyVendor}, v1alpha1.DeviceSelector{SerialNumbers: []string{"S1"}}
	older := func(d *device) { d.Spec.Firmware.Version, d.Spec.Firmware.Digest = "1.0", image("0") }
	for name, c := range map[string]struct {
		// person is what people wrote otherwise, and operator what the operator assigned otherwise.
		person   func(*wishes)
		operator func(*device)
		says     string
	}{
		"as the template says":           {},
		"an older version":               {operator: older, says: `rule "r" of FirmwareTemplate "t" says version 2.0`},
		"another version":                {operator: func(d *device) { d.Spec.Firmware.Version = "9.0" }, says: "assigned is version 9.0"},
		"an older image as that version": {operator: func(d *device) { d.Spec.Firmware.Digest = image("0") }, says: "no such image of version 2.0"},
		"no image":                       {operator: func(d *device) { d.Spec.Firmware.Digest = "" }, says: "no such image"},
		"an image for another board": {person: ofSource(func(s *source) {
			s.Spec.Files[0].Images[0].Vendor, s.Spec.Files[0].Images[0].BoardIDs = "", []string{"OTHER"}
		}), says: "no such image"},
		"a member of an archive": {person: ofSource(func(s *source) {
			s.Spec.Files[0].Digest, s.Spec.Files[0].Images[0].Path = image("f"), "fw.bin"
		})},
		"what a tag has": {person: ofSource(func(s *source) { s.Spec.Files[0].Digest = "" })},
		"another template's version": {person: func(w *wishes) {
			o := w.templates["t"]
			o.Spec.Rules = []v1alpha1.FirmwareRule{o.Spec.Rules[0]}
			o.Spec.Rules[0].Selector = v1alpha1.DeviceSelector{Class: v1alpha1.ClassNIC, BoardIDs: []string{"OTHER"}}
			w.templates["other"] = o
		}, operator: func(d *device) { d.Spec.Origin[0].Name = "other" }, says: "no rule of the template"},
		"a template for other nodes": {person: ofTemplate(func(o *template) {
			o.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "x"}}
		}), says: "no rule of the template"},
		"a template for this node": {person: func(w *wishes) {
			ofTemplate(func(o *template) {
				o.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "x"}}
			})(w)
			w.labels = map[string]string{"pool": "x"}
		}},
		"a template for other machines": {person: ofTemplate(func(o *template) { o.Spec.Machine = &v1alpha1.MachineSelector{Vendor: "Lenovo"} }), says: "no rule of the template"},
		"a template for this machine": {person: func(w *wishes) {
			ofTemplate(func(o *template) { o.Spec.Machine = &v1alpha1.MachineSelector{Vendor: "Lenovo"} })(w)
			w.node.Status.Machine = &v1alpha1.Machine{Vendor: "LENOVO"}
		}},
		"a template that is paused":       {person: ofTemplate(func(o *template) { o.Spec.State = v1alpha1.TemplatePaused })},
		"the template is gone":            {person: func(w *wishes) { delete(w.templates, "t") }, says: "no rule of the template"},
		"the template is being deleted":   {person: ofTemplate(func(o *template) { o.DeletionTimestamp = &metav1.Time{} }), says: "no rule of the template"},
		"the source waits to be deleted":  {person: ofSource(func(s *source) { s.DeletionTimestamp = &metav1.Time{} })},
		"the template was edited":         {person: ofTemplate(func(o *template) { o.Spec.Rules[0].Version = "3.0" }), says: "says version 3.0"},
		"the source is gone":              {person: func(w *wishes) { delete(w.sources, "s") }, says: `FirmwareSource "s", which rule "r" of FirmwareTemplate "t" names, is gone`},
		"another source":                  {person: ofTemplate(func(o *template) { o.Spec.Rules[0].SourceRef.Name = "new" }), says: `FirmwareSource "new"`},
		"nobody assigned it":              {operator: func(d *device) { d.Spec.Origin = nil }, says: "no pin of the node"},
		"a pin that nobody wrote":         {operator: func(d *device) { d.Spec.Origin[0].Kind = v1alpha1.OriginPin }, says: "no pin of the node"},
		"a downgrade without permission":  {operator: func(d *device) { d.Spec.Firmware.Downgrade = v1alpha1.DowngradeAllow }, says: "(downgrade: Forbid, policy: Apply), and assigned is version 2.0 (downgrade: Allow"},
		"what is only to be reported":     {person: ofTemplate(func(o *template) { o.Spec.Rules[0].Policy = v1alpha1.PolicyValidate }), says: "policy: Validate"},
		"as a pin says":                   {person: pin("2.0", anyNIC)},
		"a pin says otherwise":            {person: pin("1.5", anyNIC), says: `pin "p1.5"`},
		"a pin for another device":        {person: pin("1.5", v1alpha1.DeviceSelector{SerialNumbers: []string{"S2"}})},
		"a pin for this device says more": {person: func(w *wishes) { pin("2.0", anyNIC)(w); pin("1.5", thisNIC)(w) }, says: `pin "p1.5"`},
		"a pin of this machine":           {person: func(w *wishes) { pin("2.0", anyNIC)(w); pinned(w, "A", "A") }},
		"a pin of another machine":        {person: func(w *wishes) { pin("2.0", anyNIC)(w); pinned(w, "A", "B") }, says: "the pins of the node are for another machine"},
		"a template beside such a pin": {person: func(w *wishes) {
			pin("2.0", v1alpha1.DeviceSelector{SerialNumbers: []string{"S2"}})(w)
			pinned(w, "A", "")
		}, says: "the pins of the node are for another machine"},
		"a machine without pins":           {person: func(w *wishes) { pinned(w, "A", "B") }},
		"an older version that is pinned":  {person: func(w *wishes) { pin("1.0", thisNIC)(w); offer(w, "0", "1.0") }, operator: older},
		"the pin was edited":               {person: func(w *wishes) { pin("3.0", thisNIC)(w); offer(w, "0", "1.0") }, operator: older, says: "says version 3.0"},
		"by a hop":                         {person: func(w *wishes) { path(w); offer(w, "b", "1.5") }, operator: hop},
		"by a hop that nobody wrote":       {operator: hop, says: "its upgrade path to version 2.0 is not that of"},
		"by another image of the hop":      {person: func(w *wishes) { path(w); offer(w, "c", "1.5") }, operator: hop, says: "no such image of version 1.5"},
		"past a hop that a person demands": {person: func(w *wishes) { path(w); offer(w, "b", "1.5") }, says: "no such image of version 1.5"},
	} {
		t.Run(name, func(t *testing.T) {
			d := device{
				ObjectMeta: metav1.ObjectMeta{Name: "nic"},
				Spec: v1alpha1.NodeDeviceSpec{Origin: []v1alpha1.Origin{{Kind: v1alpha1.OriginTemplate, Name: "t", Rule: "r"}}, Firmware: &v1alpha1.DesiredFirmware{
					Version: "2.0", Digest: image("a"), Policy: v1alpha1.PolicyApply, Downgrade: v1alpha1.DowngradeForbid,
				}},
				Status: v1alpha1.NodeDeviceStatus{Class: v1alpha1.ClassNIC, SerialNumber: "S1", BoardID: "MT_1"},
			}
			w := granted(d)
			if c.person != nil {
				c.person(&w)
			}
			if c.operator != nil {
				c.operator(&d)
			}
			why := w.unwanted(d)
			if c.says == "" {
				assert.Empty(t, why)
				return
			}
			assert.Contains(t, why, c.says)
		})
	}
}

// pinned says for which machine the pins are, and which one this is.
func pinned(w *wishes, machine, is string) {
	w.node.Status.PinnedMachine, w.node.Status.Machine = machine, &v1alpha1.Machine{SerialNumber: is}
}

// path has the source demand a hop.
func path(w *wishes) {
	s := w.sources["s"]
	s.Spec.UpgradePaths = []v1alpha1.UpgradePath{{To: "2.0", From: []string{"1.0"}, Via: "1.5"}}
	w.sources["s"] = s
}

// offer adds an image to the source.
func offer(w *wishes, digit, version string) {
	s := w.sources["s"]
	s.Spec.Files = append(s.Spec.Files, v1alpha1.FirmwareFile{Digest: image(digit), Images: []v1alpha1.ImageDescription{{
		Class: v1alpha1.ClassNIC, Vendor: v1alpha1.AnyVendor, Version: version,
	}}})
	w.sources["s"] = s
}

// What is assigned by the operator's own code is wanted: both decide by the same rules.
func TestTheOperatorAssignsWhatIsWanted(t *testing.T) {
	d := v1alpha1.NodeDevice{Status: v1alpha1.NodeDeviceStatus{Class: v1alpha1.ClassNIC}, Spec: v1alpha1.NodeDeviceSpec{Firmware: &v1alpha1.DesiredFirmware{
		Version: "2.0", Digest: image("a"), Policy: v1alpha1.PolicyApply, Downgrade: v1alpha1.DowngradeAllow,
	}}}
	hop(&d)
	w := granted(d)
	template := w.templates["t"]
	compiled, err := match.NewTemplate(&template)
	require.NoError(t, err)
	source := w.sources["s"]
	digests := map[string]v1alpha1.Digest{"2.0": image("a"), "1.5": image("b")}
	is, block := compiled.Rules[0].Firmware(func(v inventory.Version) (v1alpha1.Digest, string) { return digests[string(v)], "" }, match.SourcePaths(&source))
	require.Nil(t, block)
	d.Spec.Firmware, d.Spec.Origin = is.Desired(), is.Origin
	assert.Empty(t, w.unwanted(d))
}

func TestUnwantedJobIsRejected(t *testing.T) {
	d := v1alpha1.NodeDevice{
		Spec: v1alpha1.NodeDeviceSpec{Origin: []v1alpha1.Origin{{Kind: v1alpha1.OriginTemplate, Name: "t", Rule: "r"}}, Firmware: &v1alpha1.DesiredFirmware{
			Version: "2.0", Digest: image("a"), Policy: v1alpha1.PolicyApply, Downgrade: v1alpha1.DowngradeForbid,
		}},
		Status: v1alpha1.NodeDeviceStatus{UniqueID: "u", Class: v1alpha1.ClassNIC, Firmware: &v1alpha1.ObservedFirmware{Running: "1.0", Driver: "sim"}},
	}
	f := state{
		object: &v1alpha1.FirmwareJob{Spec: v1alpha1.FirmwareJobSpec{Task: v1alpha1.JobTask{Type: v1alpha1.JobTypeUpdate, Devices: []v1alpha1.TaskDevice{
			{Name: "nic", UniqueID: "u", FromVersion: "1.0", Version: "2.0", Digest: image("a")},
		}}}},
		devices: map[string]v1alpha1.NodeDevice{"nic": d},
	}
	got := refusal(f)
	require.NotNil(t, got)
	assert.Equal(t, step.JobRejected, got.Reason)
	assert.Contains(t, got.Message, "nic: the job is no longer wanted: ")
	assert.Contains(t, got.Message, "nothing was written")
	assert.Empty(t, got.Blames)
	f.wishes = granted(d)
	assert.Nil(t, refusal(f))
}

// A job for a device to which nothing is assigned is refused for that, whatever pins are there. One whose version runs already flashes
// nothing: it judges the node again, also after people wrote something else.
func TestWishesOfWhatIsNotFlashed(t *testing.T) {
	job := func(d v1alpha1.NodeDevice) state {
		task := v1alpha1.JobTask{Type: v1alpha1.JobTypeUpdate, Devices: []v1alpha1.TaskDevice{{Name: "nic", UniqueID: "u", FromVersion: "1.0", Version: "2.0", Digest: image("a")}}}
		return state{object: &v1alpha1.FirmwareJob{Spec: v1alpha1.FirmwareJobSpec{Task: task}}, devices: map[string]v1alpha1.NodeDevice{"nic": d}}
	}
	d := v1alpha1.NodeDevice{
		ObjectMeta: metav1.ObjectMeta{Name: "nic"},
		Spec: v1alpha1.NodeDeviceSpec{Firmware: &v1alpha1.DesiredFirmware{
			Version: "2.0", Digest: image("a"), Policy: v1alpha1.PolicyApply, Downgrade: v1alpha1.DowngradeForbid,
		}},
		Status: v1alpha1.NodeDeviceStatus{UniqueID: "u", Class: v1alpha1.ClassNIC, Firmware: &v1alpha1.ObservedFirmware{
			Running: "2.0", Stored: "2.0", Driver: "sim", VersionFormat: v1alpha1.VersionFormatDotted,
		}},
	}
	assert.Nil(t, refusal(job(d)))
	d.Status.Firmware.Stored = "1.0"
	require.NotNil(t, refusal(job(d)), "another version is stored")
	d.Status.Firmware.Running = "1.0"
	require.NotNil(t, refusal(job(d)), "nobody asks for it")

	unassigned := job(d)
	unassigned.wishes = granted(d)
	unassigned.wishes.node.Spec.Pins = []v1alpha1.FirmwareRule{{
		Name: "p", Selector: v1alpha1.DeviceSelector{Class: v1alpha1.ClassNIC, Vendor: v1alpha1.AnyVendor}, Version: "2.0", SourceRef: v1alpha1.SourceReference{Name: "s"},
	}}
	d.Spec = v1alpha1.NodeDeviceSpec{}
	unassigned.devices["nic"] = d
	require.NotNil(t, refusal(unassigned))
}

// The image to roll back to is one that the node flashed itself, or that a source of a person has for what runs now. Another one, which the
// operator alone names, is not kept for a rollback.
func TestRollbackImageIsSomebodys(t *testing.T) {
	source := func(name string, files ...v1alpha1.FirmwareFile) func(*wishes) {
		return func(w *wishes) {
			w.sources[name] = v1alpha1.FirmwareSource{Spec: v1alpha1.FirmwareSourceSpec{Files: files}}
		}
	}
	of := func(version string, change func(*v1alpha1.FirmwareFile)) v1alpha1.FirmwareFile {
		f := v1alpha1.FirmwareFile{Digest: image("b"), Images: []v1alpha1.ImageDescription{{Class: v1alpha1.ClassNIC, Models: []string{"M"}, Version: version}}}
		change(&f)
		return f
	}
	asIs := func(*v1alpha1.FirmwareFile) {}
	member := func(digest v1alpha1.Digest) func(*v1alpha1.FirmwareFile) {
		return func(f *v1alpha1.FirmwareFile) {
			f.Digest, f.Images[0].Path, f.Images[0].Digest = image("f"), "fw.bin", digest
		}
	}
	for name, c := range map[string]struct {
		person func(*wishes)
		record *journal.Applied
		want   v1alpha1.Digest
	}{
		"nobody says so":                      {},
		"the node flashed it":                 {record: &journal.Applied{Version: "1.0", Digest: string(image("b"))}, want: image("b")},
		"the node flashed another image":      {record: &journal.Applied{Version: "1.0", Digest: string(image("c"))}},
		"the node flashed another version":    {record: &journal.Applied{Version: "0.9", Digest: string(image("b"))}},
		"its own source has it":               {person: func(w *wishes) { offer(w, "b", "1.0") }, want: image("b")},
		"its own source has another version":  {person: func(w *wishes) { offer(w, "b", "0.9") }},
		"the source that the job names":       {person: source("old", of("1.0", asIs)), want: image("b")},
		"that source has another version":     {person: source("old", of("0.9", asIs))},
		"that source has another image":       {person: source("old", of("1.0", func(f *v1alpha1.FirmwareFile) { f.Digest = image("c") }))},
		"that source has it for other models": {person: source("old", of("1.0", func(f *v1alpha1.FirmwareFile) { f.Images[0].Models = []string{"N"} }))},
		"a source that nobody names":          {person: source("older", of("1.0", asIs))},
		"a member of an archive":              {person: source("old", of("1.0", member(image("b")))), want: image("b")},
		"another member of that archive":      {person: source("old", of("1.0", member(image("c"))))},
		"a member without a digest":           {person: source("old", of("1.0", member(""))), want: image("b")},
	} {
		t.Run(name, func(t *testing.T) {
			d := v1alpha1.NodeDevice{
				Spec: v1alpha1.NodeDeviceSpec{Origin: []v1alpha1.Origin{{Kind: v1alpha1.OriginTemplate, Name: "t", Rule: "r"}}, Firmware: &v1alpha1.DesiredFirmware{
					Version: "2.0", Digest: image("a"), Policy: v1alpha1.PolicyApply, Downgrade: v1alpha1.DowngradeForbid,
				}},
				Status: v1alpha1.NodeDeviceStatus{UniqueID: "u", Class: v1alpha1.ClassNIC, Model: "M", Firmware: &v1alpha1.ObservedFirmware{Running: "1.0", Driver: "sim"}},
			}
			f := state{
				object: &v1alpha1.FirmwareJob{Spec: v1alpha1.FirmwareJobSpec{Task: v1alpha1.JobTask{Type: v1alpha1.JobTypeUpdate, Devices: []v1alpha1.TaskDevice{{
					Name: "nic", UniqueID: "u", FromVersion: "1.0", Version: "2.0", Digest: image("a"), RollbackDigest: image("b"), RollbackSource: "old",
				}}}}},
				devices: map[string]v1alpha1.NodeDevice{"nic": d},
				records: map[string]journal.Device{"u": {LastApplied: c.record}},
				wishes:  granted(d),
			}
			if c.person != nil {
				c.person(&f.wishes)
			}
			require.Nil(t, refusal(f), "the update itself is wanted")
			assert.Equal(t, string(c.want), (&Reconciler{}).newJob(f).Updates[0].RollbackDigest)
		})
	}
}

// Of the members of an archive, a person may say which one it is.
func TestMembersAreToldByTheirDigest(t *testing.T) {
	d := v1alpha1.NodeDevice{
		Spec: v1alpha1.NodeDeviceSpec{Origin: []v1alpha1.Origin{{Kind: v1alpha1.OriginTemplate, Name: "t", Rule: "r"}}, Firmware: &v1alpha1.DesiredFirmware{
			Version: "2.0", Digest: image("a"), Policy: v1alpha1.PolicyApply, Downgrade: v1alpha1.DowngradeForbid,
		}},
		Status: v1alpha1.NodeDeviceStatus{Class: v1alpha1.ClassNIC},
	}
	for name, c := range map[string]struct {
		change func(*v1alpha1.FirmwareFile)
		wanted bool
	}{
		"a member that nobody describes": {func(f *v1alpha1.FirmwareFile) { f.Digest, f.Images[0].Path = image("f"), "fw.bin" }, true},
		"the member": {func(f *v1alpha1.FirmwareFile) {
			f.Digest, f.Images[0].Path, f.Images[0].Digest = image("f"), "fw.bin", image("a")
		}, true},
		"another member": {func(f *v1alpha1.FirmwareFile) {
			f.Digest, f.Images[0].Path, f.Images[0].Digest = image("f"), "fw.bin", image("b")
		}, false},
		"what a tag stands for":            {func(f *v1alpha1.FirmwareFile) { f.Digest = "" }, true},
		"that content of a tag":            {func(f *v1alpha1.FirmwareFile) { f.Digest, f.Images[0].Digest = "", image("a") }, true},
		"another content of a tag":         {func(f *v1alpha1.FirmwareFile) { f.Digest, f.Images[0].Digest = "", image("b") }, false},
		"a file that is said to be itself": {func(f *v1alpha1.FirmwareFile) { f.Images[0].Digest = image("a") }, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := granted(d)
			source := w.sources["s"]
			source.Spec.Files = slices.Clone(source.Spec.Files)
			for i := range source.Spec.Files {
				f := &source.Spec.Files[i]
				f.Images = slices.Clone(f.Images)
				c.change(f)
			}
			w.sources["s"] = source
			assert.Equal(t, c.wanted, w.unwanted(d) == "", w.unwanted(d))
		})
	}
}
