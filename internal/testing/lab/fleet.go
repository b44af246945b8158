package lab

import (
	"cmp"
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/fieldset"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/lab/mirror"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/simhost"
)

// target is the firmware that one part of every simulated machine should run.
type target struct {
	// keys of the part in simhost.
	keys []string
	// rule is the name of the template's rule, and of the source unless that has one of its own.
	rule, source string
	selector     v1alpha1.DeviceSelector
	kind         simhost.ImageKind
	image        simhost.ImageOptions
	file         string
}

// targets are newer versions for every part of simhost.DefaultSpec that the drivers can update.
func targets() []target {
	spec := simhost.DefaultSpec("", 0)
	out := []target{{
		keys: []string{simhost.BIOSKey}, rule: "bios", kind: simhost.BIOSImage, file: "bios-2.19.1.cab",
		selector: v1alpha1.DeviceSelector{Class: v1alpha1.ClassBIOS, Vendor: spec.BIOS.Vendor},
		image:    simhost.ImageOptions{Version: "2.19.1", GUID: spec.BIOS.GUID},
	}}
	for i, n := range spec.NICs {
		version := []string{"22.41.1000", "28.41.1000"}[i]
		out = append(out, target{
			keys: []string{n.Key}, rule: []string{"cx6dx", "cx7"}[i], kind: simhost.NICImage, file: fmt.Sprintf("fw-%s-%s.bin", n.PSID, version),
			selector: v1alpha1.DeviceSelector{Class: v1alpha1.ClassNIC, Vendor: "15b3", Models: []string{n.DeviceID}, BoardIDs: []string{n.PSID}},
			image:    simhost.ImageOptions{Version: version, PSID: n.PSID, Size: 1 << 20},
		})
	}
	for i, d := range spec.NVMe {
		version := []string{"GDC5902Q", "E2MU300"}[i]
		out = append(out, target{
			keys: []string{d.Key}, rule: []string{"pm9a3", "m7450"}[i], kind: simhost.NVMeImage, file: fmt.Sprintf("%s-%s.bin", d.Vendor, version),
			selector: v1alpha1.DeviceSelector{Class: v1alpha1.ClassDisk, Models: []string{d.Model}},
			image:    simhost.ImageOptions{Version: version, Model: d.Model, Size: 1 << 20},
		})
	}
	return out
}

func (t target) sourceName() string { return cmp.Or(t.source, t.rule) }

// publish puts the image into a signed archive on the mirror, which the lab must have, and declares its source.
func (t target) publish(ctx context.Context, l *Lab) error {
	if l.mirror == nil {
		return fmt.Errorf("publish %s: this lab has no mirror", t.file)
	}
	archive, err := l.mirror.Publish(t.file, simhost.BuildImage(t.kind, t.image))
	if err != nil {
		return err
	}
	if err := l.admin.Create(ctx, t.sourceOf(l, archive)); client.IgnoreAlreadyExists(err) != nil {
		return fmt.Errorf("declare source %s: %w", t.sourceName(), err)
	}
	return nil
}

// sourceOf is the source of the image in a published archive.
func (t target) sourceOf(l *Lab, archive mirror.Archive) *v1alpha1.FirmwareSource {
	return &v1alpha1.FirmwareSource{
		ObjectMeta: metav1.ObjectMeta{Name: t.sourceName()},
		Spec: v1alpha1.FirmwareSourceSpec{
			SecretRef:    &v1alpha1.LocalReference{Name: credentialsName},
			CARef:        &v1alpha1.LocalReference{Name: authorityName},
			Verification: &v1alpha1.SourceVerification{Keys: []string{l.mirror.PublicKey()}},
			Files: []v1alpha1.FirmwareFile{{
				URL: archive.URL, SignatureURL: archive.SignatureURL, Digest: v1alpha1.Digest("sha256:" + archive.SHA256),
				Images: []v1alpha1.ImageDescription{{
					Path: archive.Member, Class: t.selector.Class, Vendor: t.selector.Vendor, Models: t.selector.Models,
					BoardIDs: t.selector.BoardIDs, Version: t.image.Version,
				}},
			}},
		},
	}
}

// fleetTemplate names every target in one template for the simulated model.
func fleetTemplate(list []target) *v1alpha1.FirmwareTemplate {
	system := simhost.DefaultSpec("", 0).System
	t := &v1alpha1.FirmwareTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: "gpu-pool"},
		Spec: v1alpha1.FirmwareTemplateSpec{
			NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "gpu"}},
			Machine:      &v1alpha1.MachineSelector{Vendor: system.Vendor, Model: system.Product},
		},
	}
	for _, target := range list {
		t.Spec.Rules = append(t.Spec.Rules, v1alpha1.FirmwareRule{
			Name: target.rule, Selector: target.selector, Version: target.image.Version, SourceRef: v1alpha1.SourceReference{Name: target.sourceName()},
		})
	}
	return t
}

// virtualFunctions are what the template of settings declares for each network adapter of the fleet: a limit, which the adapter keeps over a
// boot.
var virtualFunctions = []v1alpha1.ParameterValue{{Name: "SRIOV_EN", Value: "1"}, {Name: "NUM_OF_VFS", Value: "8"}}

// fleetSettings declares them, in a rule for each target that is a network adapter.
func fleetSettings(list []target) *v1alpha1.ConfigurationTemplate {
	firmware := fleetTemplate(list)
	t := &v1alpha1.ConfigurationTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: "gpu-pool"},
		Spec:       v1alpha1.ConfigurationTemplateSpec{NodeSelector: firmware.Spec.NodeSelector, Machine: firmware.Spec.Machine},
	}
	for _, target := range list {
		if target.selector.Class == v1alpha1.ClassNIC {
			t.Spec.Rules = append(t.Spec.Rules, v1alpha1.ConfigurationRule{
				Name: target.rule, Selector: target.selector, DesiredConfiguration: v1alpha1.DesiredConfiguration{Parameters: virtualFunctions},
			})
		}
	}
	return t
}

// policy lets the given number of nodes be disturbed at once.
func policy(maxUnavailable int) *v1alpha1.RolloutPolicy {
	return &v1alpha1.RolloutPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.DefaultRolloutPolicy},
		Spec:       v1alpha1.RolloutPolicySpec{MaxUnavailable: ptr.To(intstr.FromInt32(int32(maxUnavailable))), HealthyFor: "1s"},
	}
}

// declare applies a policy as a person would: the operator creates one of this name too, and writes its status.
func (l *Lab) declare(ctx context.Context, p *v1alpha1.RolloutPolicy) error {
	body, err := fieldset.Configuration(l.admin, p)
	if err != nil {
		return err
	}
	return l.admin.Apply(ctx, client.ApplyConfigurationFromUnstructured(body), client.FieldOwner("firmware-lab"), client.ForceOwnership)
}
