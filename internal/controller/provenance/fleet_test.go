package provenance

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/internal/index"
)

const devicesPerNode = 8

// fleet is an API server in memory, with one template and one source that the firmware of all devices came from. It counts what the
// controller does, and sends it the events that its predicates pass. It gives its objects away without copying them, as a cache does.
type fleet struct {
	client.Client
	r     *Reconciler
	clock time.Time

	firmware map[string]*v1alpha1.NodeFirmware
	devices  map[string][]v1alpha1.NodeDevice
	template *v1alpha1.FirmwareTemplate
	source   *v1alpha1.FirmwareSource
	// configuration is nil where no device has settings.
	configuration *v1alpha1.ConfigurationTemplate

	// due are the nodes with an event.
	due            map[string]bool
	passes, writes int
}

// newFleet is at rest: the controller has looked at each node and has nothing to do.
func newFleet(t testing.TB, nodes int) *fleet {
	f := &fleet{
		clock:    time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC),
		firmware: map[string]*v1alpha1.NodeFirmware{}, devices: map[string][]v1alpha1.NodeDevice{},
		due:      map[string]bool{},
		template: &v1alpha1.FirmwareTemplate{ObjectMeta: metav1.ObjectMeta{Name: "t", UID: "uid-of-t", Generation: 1}},
		source:   &v1alpha1.FirmwareSource{ObjectMeta: metav1.ObjectMeta{Name: "s", UID: "uid-of-s", Generation: 1}},
	}
	f.template.Spec.Rules = []v1alpha1.FirmwareRule{{Name: "r", Version: "2", SourceRef: v1alpha1.SourceReference{Name: "s"}}}
	f.r = New(f, func() time.Time { return f.clock })
	for i := range nodes {
		name := fmt.Sprintf("n%d", i)
		f.firmware[name] = &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 1}}
		for j := range devicesPerNode {
			f.devices[name] = append(f.devices[name], f.device(name, j))
		}
		f.due[name] = true
	}
	f.drain(t)
	f.passes, f.writes = 0, 0
	return f
}

func (f *fleet) device(node string, number int) v1alpha1.NodeDevice {
	origin := []v1alpha1.Origin{
		{Kind: v1alpha1.OriginTemplate, Name: f.template.Name, UID: string(f.template.UID), Generation: 1, Rule: "r", Hash: v1alpha1.ContentHash("2", "s")},
		{Kind: v1alpha1.OriginSource, Name: f.source.Name, UID: string(f.source.UID), Generation: 1, Hash: v1alpha1.ImageHash(image("2"))},
	}
	return v1alpha1.NodeDevice{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", node, number), Generation: 1},
		Spec:       v1alpha1.NodeDeviceSpec{NodeName: node, Origin: origin, Firmware: &v1alpha1.DesiredFirmware{Version: "2", Digest: image("2")}},
		Status: v1alpha1.NodeDeviceStatus{
			Firmware:   &v1alpha1.ObservedFirmware{Running: "2", Stored: "2"},
			Applied:    &v1alpha1.AppliedFirmware{Digest: image("2"), Origin: origin},
			Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}},
		},
	}
}

// drain makes the passes that events ask for.
func (f *fleet) drain(t testing.TB) {
	for len(f.due) > 0 {
		for name := range f.due {
			delete(f.due, name)
			f.passes++
			_, err := f.r.Reconcile(context.Background(), request(name))
			require.NoError(t, err)
		}
	}
}

// edit gives the rule of the template another version, or the same.
func (f *fleet) edit(t testing.TB, version string) {
	f.changeTemplate(func(o *v1alpha1.FirmwareTemplate) {
		o.Generation++
		o.Spec.Rules[0].Version = version
	})
	f.drain(t)
}

func (f *fleet) changeTemplate(change func(*v1alpha1.FirmwareTemplate)) {
	old := f.template
	f.template = old.DeepCopy()
	change(f.template)
	if templateChanged.Update(event.UpdateEvent{ObjectOld: old, ObjectNew: f.template}) {
		for _, r := range f.r.toUsers(v1alpha1.OriginTemplate)(context.Background(), f.template) {
			f.due[r.Name] = true
		}
	}
}

// write changes a NodeFirmware on behalf of the controller.
func (f *fleet) write(name string, change func(*v1alpha1.NodeFirmware)) {
	f.writes++
	old := f.firmware[name]
	f.firmware[name] = old.DeepCopy()
	change(f.firmware[name])
	if firmwareChanged.Update(event.UpdateEvent{ObjectOld: old, ObjectNew: f.firmware[name]}) {
		f.due[name] = true
	}
}

func (f *fleet) labelled() (n int) {
	for _, o := range f.firmware {
		if isLabelled(o) {
			n++
		}
	}
	return n
}

func request(node string) ctrl.Request {
	return ctrl.Request{NamespacedName: client.ObjectKey{Name: node}}
}

func (f *fleet) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	switch o := into.(type) {
	case *v1alpha1.NodeFirmware:
		*o = *f.firmware[key.Name]
	case *v1alpha1.FirmwareTemplate:
		*o = *f.template
	case *v1alpha1.ConfigurationTemplate:
		*o = *f.configuration
	case *v1alpha1.FirmwareSource:
		*o = *f.source
	default:
		return fmt.Errorf("get %T: the controller does not", into)
	}
	return nil
}

func (f *fleet) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	devices, ok := list.(*v1alpha1.NodeDeviceList)
	if !ok {
		return fmt.Errorf("list %T: the controller does not", list)
	}
	var o client.ListOptions
	o.ApplyOptions(opts)
	node, exact := o.FieldSelector.RequiresExactMatch(index.NodeName)
	if !exact {
		return fmt.Errorf("list the devices of all nodes: the controller does not")
	}
	devices.Items = f.devices[node]
	return nil
}

func (f *fleet) Patch(_ context.Context, o client.Object, patch client.Patch, _ ...client.PatchOption) error {
	body, err := patch.Data(o)
	if err != nil {
		return err
	}
	var p struct {
		Metadata struct{ Labels map[string]*string }
	}
	if err := json.Unmarshal(body, &p); err != nil {
		return err
	}
	f.write(o.GetName(), func(n *v1alpha1.NodeFirmware) {
		for key, value := range p.Metadata.Labels {
			if value == nil {
				delete(n.Labels, key)
				continue
			}
			metav1.SetMetaDataLabel(&n.ObjectMeta, key, *value)
		}
	})
	return nil
}

func (f *fleet) GroupVersionKindFor(runtime.Object) (schema.GroupVersionKind, error) {
	return v1alpha1.GroupVersion.WithKind("NodeFirmware"), nil
}

func (f *fleet) Status() client.SubResourceWriter { return statusOf{f: f} }

type statusOf struct {
	client.SubResourceWriter
	f *fleet
}

func (s statusOf) Apply(_ context.Context, o runtime.ApplyConfiguration, _ ...client.SubResourceApplyOption) error {
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	var body v1alpha1.NodeFirmware
	if err := json.Unmarshal(text, &body); err != nil {
		return err
	}
	if body.Kind != "NodeFirmware" {
		return fmt.Errorf("apply %s: not a NodeFirmware", body.Kind)
	}
	next := body.Status
	s.f.write(body.Name, func(n *v1alpha1.NodeFirmware) {
		n.Status.Obsolete = next.Obsolete
		for _, c := range next.Conditions {
			meta.SetStatusCondition(&n.Status.Conditions, c)
		}
	})
	return nil
}
