package kubectl

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// Who reads it knows which node has to go before which window.
func TestADeviceThatFailsHasALastWindow(t *testing.T) {
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC) // a Friday
	pool := func(name string, windows ...v1alpha1.RolloutWindow) *v1alpha1.RolloutPolicy {
		return &v1alpha1.RolloutPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.RolloutPolicySpec{
			NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"pool": name}}, Windows: windows,
		}}
	}
	saturdays := v1alpha1.RolloutWindow{Name: "saturdays", Schedule: "0 22 * * 6", Duration: "4h", TimeZone: "Etc/UTC"}
	noon := v1alpha1.RolloutWindow{Name: "noon", Schedule: "0 11 27 11 *", Duration: "2h", TimeZone: "Etc/UTC"}
	known, err := scheme()
	require.NoError(t, err)
	b := fake.NewClientBuilder().WithScheme(known).WithObjects(pool("weekly", saturdays), pool("open", noon), pool("always"), pool("wrong", v1alpha1.RolloutWindow{Schedule: "nope"}))
	for _, name := range []string{"weekly", "open", "always", "wrong"} {
		b.WithObjects(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"pool": name}}})
	}
	api, day := b.Build(), 24*time.Hour
	s := &session{now: func() time.Time { return now }}
	for _, c := range []struct {
		node  string
		after time.Duration
		want  string
	}{
		{"weekly", 10 * day, "d of node weekly fails at 2026-12-07 12:00 by a00092491 if it stays on and is not updated; the last window of policy weekly before that opens at 2026-12-05 22:00."},
		{"weekly", day, "d of node weekly fails at 2026-11-28 12:00 by a00092491 if it stays on and is not updated; no window of policy weekly opens before that."},
		{"weekly", -day, "d of node weekly may fail at any time: it reached the limit of a00092491 at 2026-11-26 12:00."},
		{"open", day, "d of node open fails at 2026-11-28 12:00 by a00092491 if it stays on and is not updated; the window of policy open that is open now is the last one before that."},
		{"always", day, "d of node always fails at 2026-11-28 12:00 by a00092491 if it stays on and is not updated."},
		{"wrong", day, "d of node wrong fails at 2026-11-28 12:00 by a00092491 if it stays on and is not updated."},
		{"gone", day, "d of node gone fails at 2026-11-28 12:00 by a00092491 if it stays on and is not updated."},
	} {
		f := []Failing{{Device: "d", Node: c.node, Advisory: "a00092491", At: metav1.NewTime(now.Add(c.after))}}
		require.NoError(t, s.addWindows(t.Context(), api, f))
		assert.Equal(t, c.want, f[0].sentence(), c.node)
	}
}
