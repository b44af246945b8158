package cacheview_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/cacheview"
)

func TestWhatIsReadIsTrimmedAndWhatIsKeptIsNot(t *testing.T) {
	stored := fake.NewClientBuilder().WithObjects(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"pool": "a"}, Annotations: map[string]string{"note": "x"}},
		Spec:       corev1.NodeSpec{ProviderID: "x", Unschedulable: true},
	}).Build()
	view := cacheview.Client{Client: stored}
	var got corev1.Node
	require.NoError(t, view.Get(t.Context(), client.ObjectKey{Name: "n1"}, &got))
	var list corev1.NodeList
	require.NoError(t, view.List(t.Context(), &list))
	require.Len(t, list.Items, 1)
	for _, n := range []corev1.Node{got, list.Items[0]} {
		assert.Empty(t, n.Annotations)
		assert.Equal(t, corev1.NodeSpec{Unschedulable: true}, n.Spec)
		assert.Equal(t, map[string]string{"pool": "a"}, n.Labels)
	}
	require.NoError(t, stored.Get(t.Context(), client.ObjectKey{Name: "n1"}, &got))
	assert.NotEmpty(t, got.Annotations)
}
