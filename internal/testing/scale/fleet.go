package scale

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/fieldset"
)

const (
	devicesPerNode   = 8
	maxTemplates     = 40
	rulesPerTemplate = 5
	from, target     = "22.39.1002", "22.41.1000"
	sourceName       = "scale"
	poolLabel        = "scale.nodefirmware.io/pool"
	// loaders is how many requests of the loader are in flight at once.
	loaders = 32
)

// fleet is what the loader puts into the API.
type fleet struct {
	client    client.Client
	nodes     int
	templates int
}

func newFleet(c client.Client, nodes int) fleet {
	return fleet{client: c, nodes: nodes, templates: min(maxTemplates, (nodes+4)/5)}
}

func nodeName(i int) string { return fmt.Sprintf("node-%05d", i) }

func deviceName(node, i int) string { return fmt.Sprintf("%s-nic-%d", nodeName(node), i) }

func board(i int) string { return fmt.Sprintf("BOARD-%d", i%rulesPerTemplate) }

// each calls f for 0 to n-1, several at once.
func each(ctx context.Context, n, workers int, f func(ctx context.Context, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(workers)
	for i := range n {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error { return f(ctx, i) })
	}
	return group.Wait()
}

// seed creates the Nodes, and the devices as the daemons report them.
func (f fleet) seed(ctx context.Context) error {
	err := each(ctx, f.nodes, loaders, func(ctx context.Context, i int) error {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName(i), Labels: map[string]string{poolLabel: fmt.Sprint(i % f.templates)}}}
		if err := f.client.Create(ctx, n); err != nil {
			return fmt.Errorf("create node: %w", err)
		}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		if err := f.client.Status().Update(ctx, n); err != nil {
			return fmt.Errorf("report node: %w", err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return each(ctx, f.nodes*devicesPerNode, loaders, func(ctx context.Context, i int) error {
		node, nr := i/devicesPerNode, i%devicesPerNode
		d := &v1alpha1.NodeDevice{ObjectMeta: metav1.ObjectMeta{Name: deviceName(node, nr)}, Spec: v1alpha1.NodeDeviceSpec{NodeName: nodeName(node)}}
		if err := f.client.Create(ctx, d, client.FieldOwner(v1alpha1.FieldOwnerDaemon)); err != nil {
			return fmt.Errorf("create device: %w", err)
		}
		return fieldset.ApplyObservation(ctx, f.client, d.Name, observed(d.Name, nr, d.Generation, from))
	})
}

// observed is the status of a device that runs a version.
func observed(name string, nr int, generation int64, running string) v1alpha1.NodeDeviceStatus {
	condition := func(kind, reason string, is metav1.ConditionStatus) metav1.Condition {
		return metav1.Condition{Type: kind, Status: is, Reason: reason, Message: "Played by the loader.", LastTransitionTime: metav1.Now(), ObservedGeneration: generation}
	}
	ready := condition(v1alpha1.ConditionReady, v1alpha1.ReasonPending, metav1.ConditionFalse)
	if running == target {
		ready = condition(v1alpha1.ConditionReady, v1alpha1.ReasonSucceeded, metav1.ConditionTrue)
	}
	port := func(function int) v1alpha1.DevicePort {
		address := fmt.Sprintf("0000:%02x:00.%d", nr+16, function)
		return v1alpha1.DevicePort{PCIAddress: address, NetDevice: fmt.Sprintf("ens%df%d", nr, function), LinkType: "Ethernet"}
	}
	return v1alpha1.NodeDeviceStatus{
		ObservedGeneration: generation, Conditions: []metav1.Condition{ready, condition(v1alpha1.ConditionInspected, v1alpha1.ReasonSucceeded, metav1.ConditionTrue)},
		Class: v1alpha1.ClassNIC, UniqueID: name, PCIID: "15b3:101d", Vendor: "Mellanox Technologies", Model: "ConnectX-6 Dx",
		BoardID: board(nr), SerialNumber: "MT" + name, PCIAddress: port(0).PCIAddress,
		Ports: []v1alpha1.DevicePort{port(0), port(1)},
		Firmware: &v1alpha1.ObservedFirmware{
			Running: running, Stored: running, Driver: "mstflint", Activation: v1alpha1.ActivationReboot, VersionFormat: v1alpha1.VersionFormatDotted,
		},
	}
}

// allow lets the default policy disturb a quarter of the fleet, of which a ledger holds 1,024 nodes.
func (f fleet) allow(ctx context.Context) error {
	quarter := intstr.FromString("25%")
	p := &v1alpha1.RolloutPolicy{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.DefaultRolloutPolicy}, Spec: v1alpha1.RolloutPolicySpec{MaxUnavailable: &quarter}}
	if err := f.client.Create(ctx, p); err != nil {
		return fmt.Errorf("create rollout policy: %w", err)
	}
	return nil
}

// offer creates a source with an image for each board, in files below dir.
func (f fleet) offer(ctx context.Context, dir string) error {
	src := &v1alpha1.FirmwareSource{ObjectMeta: metav1.ObjectMeta{Name: sourceName}}
	for i := range rulesPerTemplate {
		image := []byte("firmware of " + board(i))
		path := filepath.Join(dir, board(i)+".bin")
		if err := os.WriteFile(path, image, 0o600); err != nil {
			return fmt.Errorf("write image: %w", err)
		}
		sum := sha256.Sum256(image)
		src.Spec.Files = append(src.Spec.Files, v1alpha1.FirmwareFile{
			URL: "file://" + path, Digest: v1alpha1.Digest("sha256:" + hex.EncodeToString(sum[:])),
			Images: []v1alpha1.ImageDescription{{Class: v1alpha1.ClassNIC, BoardIDs: []string{board(i)}, Version: target}},
		})
	}
	if err := f.client.Create(ctx, src); err != nil {
		return fmt.Errorf("create source: %w", err)
	}
	return nil
}

// desire creates the templates. Together they choose each device once.
func (f fleet) desire(ctx context.Context) error {
	for i := range f.templates {
		t := &v1alpha1.FirmwareTemplate{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("template-%d", i)}, Spec: v1alpha1.FirmwareTemplateSpec{
			NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{poolLabel: fmt.Sprint(i)}},
		}}
		for r := range rulesPerTemplate {
			t.Spec.Rules = append(t.Spec.Rules, v1alpha1.FirmwareRule{
				Name: fmt.Sprintf("rule-%d", r), Version: target, SourceRef: v1alpha1.SourceReference{Name: sourceName},
				Selector: v1alpha1.DeviceSelector{Class: v1alpha1.ClassNIC, Vendor: "15b3", BoardIDs: []string{board(r)}},
			})
		}
		if err := f.client.Create(ctx, t); err != nil {
			return fmt.Errorf("create template: %w", err)
		}
	}
	return nil
}
