package kubectl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/desired"
	"github.com/nodefirmware/node-firmware-operator/internal/match"
	"github.com/nodefirmware/node-firmware-operator/internal/reading"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

// pinOptions are what a pin is to say.
type pinOptions struct {
	version, source string
	downgrade       bool
}

func (s *session) pinCommand() *cobra.Command {
	var o pinOptions
	c := &cobra.Command{
		Use:   "pin DEVICE --version VERSION",
		Short: "Fix the firmware of one device, whatever templates say",
		Long: "Fix the firmware of one device, whatever templates say. The pin is for the device by its serial number, or else by its PCI address, and stays until it is removed: " +
			"kubectl firmware unpin. Its update waits for no wave.",
		Example: "  kubectl firmware pin gpu-017-nic-b83fd2a1c4e0 --version 22.41.1000\n" +
			"  kubectl firmware pin gpu-017-nic-b83fd2a1c4e0 --version 22.39.2048 --source cx6dx-2239 --allow-downgrade -m 'links flap since 22.41'",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 || o.version == "" {
				return errors.New("name one device and a version, such as: kubectl firmware pin gpu-017-nic-b83fd2a1c4e0 --version 22.41.1000")
			}
			return nil
		},
		ValidArgsFunction: s.completeNames("NodeDevice"),
	}
	c.Flags().StringVar(&o.version, "version", "", "the version that is to run, as the device spells it")
	c.Flags().StringVar(&o.source, "source", "", "the FirmwareSource that has the image; not needed where one alone has it")
	_ = c.RegisterFlagCompletionFunc("source", s.completeNames("FirmwareSource"))
	c.Flags().BoolVar(&o.downgrade, "allow-downgrade", false, "flash it also where it is older than what runs")
	w := writingOf(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		return s.onDevice(c.Context(), w, args[0], func(ctx context.Context, api client.Reader, f *nodeFacts, d *v1alpha1.NodeDevice) (*write, error) {
			sources, err := reading.All[*v1alpha1.FirmwareSource](ctx, api, &v1alpha1.FirmwareSourceList{}, nil)
			if err != nil {
				return nil, err
			}
			return f.pin(d, sources, o)
		})
	}
	return c
}

// onDevice makes a change of the node of a device.
func (s *session) onDevice(ctx context.Context, w *writing, name string,
	decide func(context.Context, client.Reader, *nodeFacts, *v1alpha1.NodeDevice) (*write, error),
) error {
	api, by, err := s.begin(ctx, w)
	if err != nil {
		return err
	}
	return s.do(ctx, w, by, decisionsOf([]string{name}, func(ctx context.Context, name string) (*write, error) {
		d, err := object[*v1alpha1.NodeDevice](ctx, api, "device", name)
		if err != nil {
			return nil, err
		}
		f, err := gatherNode(ctx, api, "node/"+d.Spec.NodeName)
		if err != nil {
			return nil, err
		}
		return decide(ctx, api, f, d)
	}))
}

// pin decides a pin, by the rules by which the operator assigns firmware and plans its update.
func (f *nodeFacts) pin(d *v1alpha1.NodeDevice, sources []*v1alpha1.FirmwareSource, o pinOptions) (*write, error) {
	selector, err := f.only(d)
	if err != nil {
		return nil, err
	}
	source, err := sourceFor(d, sources, o)
	if err != nil {
		return nil, err
	}
	rule := v1alpha1.FirmwareRule{
		Name: pinName(d), Selector: selector, Version: o.version, SourceRef: v1alpha1.SourceReference{Name: source.Name},
		Policy: v1alpha1.PolicyApply, Downgrade: v1alpha1.DowngradeForbid,
	}
	if o.downgrade {
		rule.Downgrade = v1alpha1.DowngradeAllow
	}
	changed := copyOf(f.node)
	pins := &changed.Spec.Pins
	*pins = slices.DeleteFunc(*pins, func(p v1alpha1.FirmwareRule) bool { return p.Name == rule.Name })
	*pins = append(*pins, rule)
	compiled := match.PinsOf(changed)
	if others := match.Pinned(compiled, match.DeviceOf(d)); len(others) > 1 {
		var names []string
		for _, p := range others {
			if p.Rule != rule.Name {
				names = append(names, p.Rule)
			}
		}
		return nil, fmt.Errorf("device/%s is pinned already, by %s, and two pins of one device are a conflict. Remove that first: kubectl firmware unpin %[1]s", d.Name, strings.Join(names, ", "))
	}
	will := fmt.Sprintf("Device %s is to run %s from source %s, whatever templates say; it runs %s.", d.Name, o.version, source.Name, orUnknown(d.Status.Running()))
	added, err := f.judge(compiled[len(compiled)-1], d, source)
	if err != nil {
		return nil, err
	}
	return &write{old: f.node, changed: changed, will: will + added, did: "pin " + rule.Name + " set", action: "Pin", reason: v1alpha1.ReasonPending}, nil
}

// judge refuses a pin by which nothing could be flashed, and says what becomes of the others.
func (f *nodeFacts) judge(pin *match.Rule, d *v1alpha1.NodeDevice, source *v1alpha1.FirmwareSource) (string, error) {
	find := func(v inventory.Version) (v1alpha1.Digest, string) {
		var images []match.Image
		for _, i := range source.Status.Images {
			images = append(images, match.NewImage(i))
		}
		return match.Resolve(images, match.DeviceOf(d), v)
	}
	assigned, blocked := pin.Firmware(find, match.SourcePaths(source))
	if blocked != nil {
		return "", fmt.Errorf("device/%s cannot be brought to %s: %s. To see why: kubectl firmware why source/%s", d.Name, pin.Version, blocked.Reason, source.Name)
	}
	verdict := plan.Decide(desired.Of(&assigned.DesiredFirmware, desired.Retry(f.node)), match.Facts(d))
	switch verdict.Reason {
	case plan.ReasonDowngradeForbidden:
		is, _, _ := strings.Cut(verdict.Message, ";") // the rest is about the field
		return "", fmt.Errorf("device/%s: %s. To have it flashed all the same, add --allow-downgrade", d.Name, is)
	case plan.ReasonNotUpdatable, plan.ReasonPathBlocked, plan.ReasonPowerCycleRequired:
		return "", fmt.Errorf("device/%s: %s", d.Name, verdict.Message)
	case plan.ReasonUpdateFailed, plan.ReasonRestored, plan.ReasonDeviceUnhealthy:
		return fmt.Sprintf(" It is not flashed before a retry: kubectl firmware retry %s.", f.node.Name), nil
	}
	if q := f.quarantined(d, assigned.Digest); q != nil {
		return fmt.Sprintf(" It is not flashed while the image is quarantined: kubectl firmware quarantine lift %s.", q.Name), nil
	}
	if !verdict.Outcome.Due() {
		return " Nothing is flashed.", nil
	}
	return " The update waits for no wave, only for budget and windows." + f.limits(), nil
}

// only is a selector for the device alone: by its serial number or else by its PCI address, if no other device of the node has it too.
func (f *nodeFacts) only(d *v1alpha1.NodeDevice) (v1alpha1.DeviceSelector, error) {
	var choices []v1alpha1.DeviceSelector
	if d.Status.SerialNumber != "" {
		choices = append(choices, v1alpha1.DeviceSelector{Class: d.Status.Class, SerialNumbers: []string{d.Status.SerialNumber}})
	}
	if d.Status.PCIAddress != "" && d.Status.Class != v1alpha1.ClassBIOS {
		choices = append(choices, v1alpha1.DeviceSelector{Class: d.Status.Class, PCIAddresses: []string{d.Status.PCIAddress}})
	}
	if d.Status.Class == v1alpha1.ClassBIOS {
		choices = append(choices, v1alpha1.DeviceSelector{Class: d.Status.Class, Vendor: v1alpha1.AnyVendor})
	}
	for _, s := range choices {
		matched := 0
		for _, o := range f.devices {
			if match.NewSelector(s).Matches(match.DeviceOf(o)) {
				matched++
			}
		}
		if matched == 1 && match.NewSelector(s).Matches(match.DeviceOf(d)) {
			return s, nil
		}
	}
	return v1alpha1.DeviceSelector{}, fmt.Errorf("device/%s has neither a serial number nor a PCI address of its own. Write the pin yourself: kubectl edit nfw %s", d.Name, f.node.Name)
}

// pinName is the name of the pin that the command sets for a device: that of the device without its node.
func pinName(d *v1alpha1.NodeDevice) string {
	const most = 63
	name := strings.TrimPrefix(d.Name, d.Spec.NodeName+"-")
	return strings.Trim(text.Slug(name)[:min(len(text.Slug(name)), most)], "-")
}

// sourceFor is the source that is named, or the only one that has an image of the version for the device.
func sourceFor(d *v1alpha1.NodeDevice, sources []*v1alpha1.FirmwareSource, o pinOptions) (*v1alpha1.FirmwareSource, error) {
	var have []*v1alpha1.FirmwareSource
	var names, versions []string
	for _, s := range sources {
		names = append(names, s.Name)
		found := false
		for _, i := range s.Status.Images {
			image, v := match.NewImage(i), inventory.NormalizeVersion(i.Version)
			if !image.For(match.DeviceOf(d), v) {
				continue
			}
			found = found || v == inventory.NormalizeVersion(o.version)
			if !slices.Contains(versions, i.Version+" in "+s.Name) {
				versions = append(versions, i.Version+" in "+s.Name)
			}
		}
		if found && (o.source == "" || o.source == s.Name) {
			have = append(have, s)
		}
	}
	known := "There is none for this device. To see the sources: kubectl get fws"
	if len(versions) > 0 {
		known = "For this device there are: " + text.Some(versions, 8)
	}
	switch {
	case o.source != "" && !slices.Contains(names, o.source):
		return nil, noSuch("source", "fws", o.source, names)
	case len(have) == 0 && o.source != "":
		return nil, fmt.Errorf("source/%s has no image of %s for device/%s. %s", o.source, o.version, d.Name, known)
	case len(have) == 0:
		return nil, fmt.Errorf("no source has an image of %s for device/%s. %s", o.version, d.Name, known)
	case len(have) > 1:
		return nil, fmt.Errorf("more than one source has an image of %s for device/%s: say --source %s or --source %s", o.version, d.Name, have[0].Name, have[1].Name)
	}
	return have[0], nil
}

func orUnknown(version string) string {
	if version == "" {
		return "a version that could not be read"
	}
	return version
}
