package trim

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// A field that is dropped here is empty in every reconciler, so what is dropped is listed.
func TestOnlyTheseFieldsAreDropped(t *testing.T) {
	for kind, c := range map[string]struct {
		object client.Object
		want   []string
	}{
		"NodeDevice": {&v1alpha1.NodeDevice{}, []string{
			"metadata.managedFields", "status.parameters.next", "status.ports.linkType", "status.ports.netDevice",
		}},
		"NodeFirmware":          {&v1alpha1.NodeFirmware{}, []string{"metadata.managedFields", "status.steps"}},
		"FirmwareJob":           {&v1alpha1.FirmwareJob{}, []string{"metadata.managedFields"}},
		"FirmwareTemplate":      {&v1alpha1.FirmwareTemplate{}, []string{"metadata.managedFields"}},
		"ConfigurationTemplate": {&v1alpha1.ConfigurationTemplate{}, []string{"metadata.managedFields"}},
		"FirmwareSource":        {&v1alpha1.FirmwareSource{}, []string{"metadata.managedFields"}},
		"RolloutPolicy":         {&v1alpha1.RolloutPolicy{}, []string{"metadata.managedFields"}},
	} {
		t.Run(kind, func(t *testing.T) {
			fill(reflect.ValueOf(c.object).Elem(), 0)
			before := paths(t, c.object)
			_, err := Object(c.object)
			require.NoError(t, err)
			assert.Equal(t, c.want, dropped(before, paths(t, c.object)))
		})
	}
}

// A daemon that does not report is told by the clock of the API server.
func TestALastReportIsKept(t *testing.T) {
	at := metav1.NewTime(time.Unix(5, 0))
	n := &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{
		{Manager: "kubectl", Time: &metav1.Time{Time: time.Unix(6, 0)}},
		{Manager: v1alpha1.FieldOwnerDaemon, Time: &at, Subresource: "status", FieldsV1: metav1.NewFieldsV1(`{"f:status":{}}`)},
	}}}
	for range 2 {
		_, err := Object(n)
		require.NoError(t, err)
		assert.Equal(t, []metav1.ManagedFieldsEntry{{Manager: v1alpha1.FieldOwnerDaemon, Time: &at}}, n.ManagedFields)
	}
}

func TestTheStepsOfAFailedJobSayWhy(t *testing.T) {
	for kind, want := range map[string]string{v1alpha1.ConditionComplete: "", v1alpha1.ConditionFailed: "broken"} {
		j := &v1alpha1.FirmwareJob{Status: v1alpha1.FirmwareJobStatus{
			Conditions: []metav1.Condition{{Type: kind, Status: metav1.ConditionTrue}},
			Steps:      []v1alpha1.JobStep{{Name: "flash", State: v1alpha1.StepFailed, Message: "broken"}},
		}}
		_, err := Object(j)
		require.NoError(t, err)
		assert.Equal(t, want, j.Status.Steps[0].Message, kind)
		assert.Equal(t, "flash", j.Status.Steps[0].Name)
	}
}

func TestANodeKeepsWhatDecidesAboutItsAdmission(t *testing.T) {
	n := &corev1.Node{}
	fill(reflect.ValueOf(n).Elem(), 0)
	ready := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue}
	n.Labels = map[string]string{"pool": "gpu", "rack": "7"}
	n.Status.Conditions = append(n.Status.Conditions, ready)
	n.Spec.Unschedulable = true
	drain := corev1.Taint{Key: "medik8s.io/drain", Effect: corev1.TaintEffectNoSchedule}
	n.Spec.Taints = append(n.Spec.Taints, drain)
	n.Annotations[v1alpha1.UpdateWhileCordonedAnnotation] = "true"
	want := &corev1.Node{
		TypeMeta: n.TypeMeta, ObjectMeta: *n.ObjectMeta.DeepCopy(), Spec: corev1.NodeSpec{Unschedulable: true, Taints: []corev1.Taint{drain}},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{ready}},
	}
	want.ManagedFields, want.Annotations = nil, map[string]string{v1alpha1.UpdateWhileCordonedAnnotation: "true"}
	_, err := Object(n)
	require.NoError(t, err)
	assert.Equal(t, want, n)
}

// fill gives every field a value, and every list and map one element.
func fill(v reflect.Value, depth int) {
	if depth > 12 || !v.CanSet() {
		return
	}
	switch v.Interface().(type) {
	case metav1.Time:
		v.Set(reflect.ValueOf(metav1.NewTime(time.Unix(1, 0))))
		return
	}
	switch v.Kind() { //nolint:exhaustive // the kinds of API objects
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), depth+1)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), depth+1)
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), depth+1)
	case reflect.Map:
		value := reflect.New(v.Type().Elem()).Elem()
		fill(value, depth+1)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("x").Convert(v.Type().Key()), value)
	}
}

// paths are the fields of an object that have a value, without the positions in lists.
func paths(t *testing.T, o any) []string {
	t.Helper()
	text, err := json.Marshal(o)
	require.NoError(t, err)
	var tree map[string]any
	require.NoError(t, json.Unmarshal(text, &tree))
	var out []string
	var walk func(prefix string, v any)
	walk = func(prefix string, v any) {
		if prefix != "" {
			out = append(out, prefix)
		}
		switch v := v.(type) {
		case map[string]any:
			for k, e := range v {
				walk(strings.TrimPrefix(fmt.Sprintf("%s.%s", prefix, k), "."), e)
			}
		case []any:
			for _, e := range v {
				walk(prefix, e)
			}
		}
	}
	walk("", tree)
	slices.Sort(out)
	return slices.Compact(out)
}

// dropped lists what is gone, without what is below it.
func dropped(before, after []string) []string {
	var out []string
	for _, p := range before {
		isBelow := slices.ContainsFunc(out, func(o string) bool { return strings.HasPrefix(p, o+".") })
		if !slices.Contains(after, p) && !isBelow {
			out = append(out, p)
		}
	}
	return out
}
