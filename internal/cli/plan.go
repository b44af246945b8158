package cli

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/desired"
	"github.com/nodefirmware/node-firmware-operator/internal/match"
	"github.com/nodefirmware/node-firmware-operator/internal/sourcefile"
	"github.com/nodefirmware/node-firmware-operator/pkg/artifact"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/host"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
)

// Plan is what apply would do on this machine.
type Plan struct {
	Devices []PlannedDevice `json:"devices"`
	// Reboot says whether this machine would have to reboot: Required or NotRequired.
	Reboot string `json:"reboot"`
	// Unreadable lists devices, and classes of devices, that could not be read though a rule may be for them.
	Unreadable []string `json:"unreadable,omitempty"`
	// Steps are those apply would run, in the order they run.
	Steps []PlannedStep `json:"steps,omitempty"`

	due []assignment
}

// PlannedDevice is what would happen to one device.
type PlannedDevice struct {
	Device
	// Rule is the template and its rule that assign a firmware, as "template/rule".
	Rule string `json:"rule,omitempty"`
	// To is the desired version.
	To string `json:"to,omitempty"`
	// Via is the version to flash first, where the desired one cannot follow the running one directly.
	Via string `json:"via,omitempty"`
	// Action is Flash, Activate, Configure (settings alone) or None.
	Action string `json:"action"`
	// Reason says why nothing is done, or what activates the image.
	Reason string `json:"reason"`
	// Image is where the image comes from.
	Image string `json:"image,omitempty"`
	// SettingsRule is the template and its rule that declare settings, as "template/rule". Settings are those that are not in force, and
	// SettingsReason says why they are not changed.
	SettingsRule   string           `json:"settingsRule,omitempty"`
	Settings       []PlannedSetting `json:"settings,omitempty"`
	SettingsReason string           `json:"settingsReason,omitempty"`
}

// assignment is the firmware and the settings that one device should get now.
type assignment struct {
	device inventory.Device
	// configuration is nil where it gets no settings.
	configuration *plan.Configuration
	// rule with the version to flash next, and with the downgrade policy that applies with its source; nil where it gets no firmware.
	rule     *match.Rule
	image    sourceImage
	decision plan.Decision
}

type sourceImage struct {
	match  match.Image
	source string
	file   v1alpha1.FirmwareFile
	path   string
}

// Images holds the images of sources by name of the source. The true digest of an image in an archive that was not fetched
// yet is not known, and a placeholder is used.
type Images map[string][]sourceImage

// Describe lists what the sources say they hold.
func Describe(sources []v1alpha1.FirmwareSource) Images {
	out := Images{}
	for _, s := range sources {
		for _, f := range s.Spec.Files {
			for _, i := range f.Images {
				out.add(s.Name, f, i, string(sourcefile.Expected(f, i).Digest))
			}
		}
	}
	return out
}

func (m Images) add(source string, f v1alpha1.FirmwareFile, i v1alpha1.ImageDescription, digest string) {
	m[source] = append(m[source], sourceImage{
		match: match.NewImage(v1alpha1.StoredImage{
			Version: i.Version, Class: i.Class, Vendor: i.Vendor, Models: i.Models, BoardIDs: i.BoardIDs, Digest: v1alpha1.Digest(digest),
		}),
		source: source, file: f, path: i.Path,
	})
}

// ErrUnreadable says that a device that a rule may be for could not be read, so that what it needs is not known.
var ErrUnreadable = errors.New("it is not known whether every device runs its desired firmware")

// Unread is ErrUnreadable with everything that could not be read, or nil.
func (p Plan) Unread() error {
	if len(p.Unreadable) == 0 {
		return nil
	}
	return fmt.Errorf("%w; correct this and run it again: %s", ErrUnreadable, strings.Join(p.Unreadable, "; "))
}

func machineOf(found host.Inventory) inventory.Machine {
	if found.Machine == nil {
		return inventory.Machine{}
	}
	return *found.Machine
}

// MakePlan decides what the documents mean for the devices of this machine as a Node with these labels, which have what was declared for them
// as it was read.
func MakePlan(found host.Inventory, docs Documents, images Images, labels map[string]string, has Declared) (Plan, error) {
	machine := machineOf(found)
	configurations, err := docs.configurations(found, labels)
	if err != nil {
		return Plan{}, err
	}
	var templates []*match.Template
	for i := range docs.Templates {
		t, err := match.NewTemplate(&docs.Templates[i])
		if err != nil {
			return Plan{}, fmt.Errorf("FirmwareTemplate %s: %w", docs.Templates[i].Name, err)
		}
		if t.ChoosesLabels(labels) && t.ChoosesMachine(machine.Manufacturer, machine.Model) {
			templates = append(templates, t)
		}
	}
	devices := slices.Clone(found.Devices)
	slices.SortStableFunc(devices, byPlace)
	p := Plan{Reboot: "NotRequired", Devices: []PlannedDevice{}}
	for _, d := range devices {
		planned, due := planDevice(d, templates, stockOf{docs.Sources, images})
		due = planSettings(d, &planned, due, has[d.UniqueID])
		p.Devices = append(p.Devices, planned)
		if err := has[d.UniqueID].err; err != nil && d.Err == nil && !errors.Is(err, driver.ErrNotSupported) {
			p.Unreadable = append(p.Unreadable, strings.Join(strings.Fields(err.Error()), " "))
		}
		if d.Err != nil && mayMatch(slices.Concat(templates, configurations), match.DeviceFrom(d.Identity)) {
			p.Unreadable = append(p.Unreadable, strings.Join(strings.Fields(d.Err.Error()), " "))
		}
		if due == nil {
			continue
		}
		p.due = append(p.due, *due)
		if due.decision.Activation >= inventory.ActivateReboot {
			p.Reboot = "Required"
		}
	}
	for _, class := range inventory.Classes() {
		anything := match.Device{Class: v1alpha1.DeviceClass(class)} // nothing else is known of a device that is not listed
		if err := found.Incomplete[class]; err != nil && mayMatch(slices.Concat(templates, configurations), anything) {
			p.Unreadable = append(p.Unreadable, err.Error())
		}
	}
	if len(templates)+len(configurations) == 0 {
		return p, fmt.Errorf("no template selects this machine (vendor %q, model %q, labels %v), so nothing is planned; give its Node's labels with --node-labels",
			machine.Manufacturer, machine.Model, labels)
	}
	return p, nil
}

// mayMatch reports whether a rule may be for a device that cannot be read.
func mayMatch(templates []*match.Template, d match.Device) bool {
	return slices.ContainsFunc(templates, func(t *match.Template) bool { return !t.Paused && t.MayMatch(d) })
}

// planSettings adds what becomes of the settings of a device to what becomes of its firmware.
func planSettings(d inventory.Device, out *PlannedDevice, due *assignment, has declared) *assignment {
	decided, change := has.plan(out, due != nil)
	if !change {
		return due
	}
	if due == nil {
		due = &assignment{device: d}
		if out.Action = "Configure"; out.Reason == noRule {
			out.Reason = settingsText(decided.Activation)
		}
	}
	due.configuration = desired.Configuration(*has.rules[0].Configuration)
	if out.Via != "" { // what only the last version brings waits for it
		without := *due.configuration
		without.Set = slices.DeleteFunc(slices.Clone(without.Set), func(s inventory.Setting) bool { return slices.Contains(decided.Later, s.Name) })
		due.configuration = &without
	}
	due.decision.Activation = max(due.decision.Activation, decided.Activation)
	return due
}

// noRule is the reason of a device that no template of firmware matches.
const noRule = "no rule matches"

func settingsText(a inventory.Activation) string {
	return map[inventory.Activation]string{
		inventory.ActivateNone:         "its settings are in force at once",
		inventory.ActivateDeviceReset:  "a reset of the device brings its settings into force",
		inventory.ActivateDriverReload: "a reload of the kernel driver brings its settings into force",
		inventory.ActivateReboot:       "a reboot brings its settings into force",
	}[a]
}

func planDevice(d inventory.Device, templates []*match.Template, stock stockOf) (PlannedDevice, *assignment) {
	out := PlannedDevice{Device: describe(d), Action: "None"}
	facts := match.DeviceFrom(d.Identity)
	var rules []*match.Rule
	paused := false
	for _, t := range templates {
		matched := t.Match(facts)
		rules = append(rules, matched...)
		paused = paused || t.Paused && len(matched) > 0
	}
	switch {
	case len(rules) == 0 && d.Err != nil:
		out.Reason = "no rule matches what is known of it: " + reason(d)
		return out, nil
	case len(rules) == 0:
		out.Reason = noRule
		return out, nil
	case len(rules) > 1:
		out.Reason = "several rules match, so nothing is done: " + parties(rules)
		return out, nil
	}
	r := rules[0]
	out.Rule, out.To = r.Name+"/"+r.Rule, string(r.Version)
	if paused {
		out.Reason = "the template is paused"
		return out, nil
	}
	a := assignment{device: d}
	var why string
	a.rule, a.image, a.decision, why = stock.decide(r, d, facts)
	if a.image.source != "" {
		out.Image = a.image.String()
	}
	then := activationText(a.decision.Activation)
	if a.rule.Version != r.Version {
		out.Via = string(a.rule.Version)
		then += fmt.Sprintf("; it is on the way to %s, so run apply again then", r.Version)
	}
	switch a.decision.Outcome {
	case plan.UpToDate:
		out.Reason = "runs it already"
	case plan.Differs:
		out.Reason = "differs; the policy is Validate, so it is only reported"
	case plan.DueFlash:
		out.Action, out.Reason = "Flash", "then "+then
		return out, &a
	case plan.DueActivation:
		out.Action, out.Reason = "Activate", "it is stored already; "+then
		return out, &a
	default:
		out.Reason = a.decision.Message
		if a.decision.Reason == plan.ReasonImageNotFound {
			out.Reason = why
		}
	}
	return out, nil
}

// String is the URL of the image, and its path within an archive.
func (i sourceImage) String() string {
	if i.path == "" {
		return i.file.URL
	}
	return i.file.URL + "#" + i.path
}

func parties(rules []*match.Rule) string {
	var out []string
	for _, r := range rules {
		out = append(out, r.Name+"/"+r.Rule)
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

func activationText(a inventory.Activation) string {
	return map[inventory.Activation]string{
		inventory.ActivateNone:         "it runs at once",
		inventory.ActivateDeviceReset:  "a reset of the device activates it",
		inventory.ActivateDriverReload: "a reload of the kernel driver activates it",
		inventory.ActivateReboot:       "a reboot activates it",
		inventory.ActivatePowerCycle:   "a power-cycle activates it",
	}[a]
}

func (p Plan) table(w io.Writer) error {
	var rows [][]string
	for _, d := range p.Devices {
		rows = append(rows, []string{
			d.Class, strings.Join(d.Names, ","), cmp.Or(d.Model, d.DeviceID), d.BoardID, d.Running, d.To, d.Action, d.Rule, d.Reason,
		})
	}
	if err := columns(w, []string{"CLASS", "NAME", "MODEL", "BOARD", "RUNNING", "DESIRED", "ACTION", "RULE", "REASON"}, rows); err != nil {
		return err
	}
	reboot := "no reboot"
	if p.Reboot == "Required" {
		reboot = "one reboot"
	}
	_, err := fmt.Fprintf(w, "\n%d of %d devices to change, %s.\n", len(p.due), len(p.Devices), reboot)
	return errors.Join(err, p.settingTable(w), p.stepTable(w))
}

// stock keeps the images of FirmwareSources on this machine.
type stock struct{ store *artifact.Store }

// openStock opens the stock below the state directory. File URLs may point anywhere, because a user who may run this
// program may read every file of this machine anyway, and URLs may name private addresses, because the user reaches them too.
func openStock(stateDir string) (*stock, error) {
	anywhere := []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
	fetcher := artifact.NewFetcher(artifact.FetchConfig{FileRoot: "/", AllowLoopback: true, Private: anywhere})
	store, err := artifact.OpenStore(filepath.Join(stateDir, "sources"), fetcher, time.Now)
	if err != nil {
		return nil, fmt.Errorf("open image store: %w", err)
	}
	return &stock{store}, nil
}

// fetch downloads and verifies the sources that the assignments need, and returns their images by true digest.
func (s *stock) fetch(ctx context.Context, sources []v1alpha1.FirmwareSource, needed []assignment, report func(string)) (Images, error) {
	out := Images{}
	for _, source := range sources {
		if !slices.ContainsFunc(needed, func(a assignment) bool { return a.image.source == source.Name }) {
			continue
		}
		files, err := sourcefile.Of(&source)
		if err != nil {
			return nil, fmt.Errorf("FirmwareSource %s: %w", source.Name, err)
		}
		if err := artifact.CheckUnique(files); err != nil {
			return nil, fmt.Errorf("FirmwareSource %s: %w", source.Name, err)
		}
		missing := s.store.Missing(source.Name, files)
		if len(missing) > 0 && (source.Spec.SecretRef != nil || source.Spec.CARef != nil) {
			return nil, fmt.Errorf("FirmwareSource %s: there are no Secrets and ConfigMaps without a cluster, so secretRef and caRef cannot be used here, and nothing "+
				"was fetched; fetch its files yourself and name them by file URLs", source.Name)
		}
		for _, f := range missing {
			report("fetching " + f.URL)
			if err := s.store.Download(ctx, source.Name, f, files...); err != nil {
				return nil, fmt.Errorf("FirmwareSource %s: %w", source.Name, err)
			}
		}
		images, err := s.store.Publish(source.Name, files)
		if err != nil {
			return nil, fmt.Errorf("FirmwareSource %s: %w", source.Name, err)
		}
		for _, i := range images {
			out.addStored(source, i)
		}
	}
	return out, nil
}

func (m Images) addStored(source v1alpha1.FirmwareSource, i artifact.Image) {
	m.add(source.Name, v1alpha1.FirmwareFile{}, v1alpha1.ImageDescription{
		Path: i.Path, Class: v1alpha1.DeviceClass(i.Class), Vendor: i.Vendor, Models: i.Models, BoardIDs: i.BoardIDs, Version: string(i.Version),
	}, i.Digest.String())
}

// Fetch gives the engine an image that was fetched before the job began. The engine hashes its content again before it
// writes it.
func (s *stock) Fetch(_ context.Context, digest inventory.Digest) (path string, size int64, err error) {
	path = s.store.Path(digest)
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", 0, driver.Rejectf("image %s is not in %s any more", hex.EncodeToString(digest[:]), filepath.Dir(path))
	}
	if err != nil {
		return "", 0, fmt.Errorf("find image: %w", err)
	}
	return path, info.Size(), nil
}
