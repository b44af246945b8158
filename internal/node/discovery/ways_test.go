package discovery_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
	"github.com/nodefirmware/node-firmware-operator/pkg/vendortool"
)

// A device that could not be read is read again when a person has typed the command of its message, and not at the next scan hours later.
func TestWayOutOfAReadError(t *testing.T) {
	env := apitest.New(t)
	require.NoError(t, env.Client.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}))
	require.NoError(t, env.Client.Create(t.Context(), &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: node}}))
	b := newBench(t)
	b.client = env.Client
	b.restart()
	b.seen(t)
	b.change(func() { b.host.found.Devices[2].Err, b.host.found.Devices[2].Firmware = broken(bios()).Err, nil })
	b.seen(t)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.RunScans(ctx) }()
	defer func() {
		stop()
		assert.NoError(t, <-ended)
	}()
	require.Eventually(t, func() bool { return b.scans() == 3 }, 5*time.Minute, 10*time.Millisecond, "a daemon that starts scans")
	b.change(func() { b.host.found.Devices[2] = bios() })

	env.TypeWayOut(t, "../../..", "NodeDevice ReadFailed", b.device(t, "n1-bios"))
	b.Follow(b.node(t)) // as its watch does
	require.Eventually(t, func() bool { return b.scans() == 4 }, 5*time.Minute, 10*time.Millisecond, "it scans now")
	stop()
	require.NoError(t, <-ended)
	ended <- nil
	require.NoError(t, b.Publish(t.Context()))
	assert.True(t, meta.IsStatusConditionTrue(b.device(t, "n1-bios").Status.Conditions, v1alpha1.ConditionInspected))
	assert.Equal(t, b.node(t).Spec.Requests.Scan, b.node(t).Status.Requests.Scan)
}

// A tool that is not of a tested version is looked at by the daemon that follows when a person has typed the command of the message.
func TestWayOutOfATool(t *testing.T) {
	env := apitest.New(t)
	require.NoError(t, env.Client.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}))
	require.NoError(t, env.Client.Create(t.Context(), &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: node}}))
	var pods []client.Object
	for _, on := range []string{node, "n2"} {
		pods = append(pods, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: apitest.Namespace, Name: "daemon-" + on, Labels: map[string]string{
				"app.kubernetes.io/name": "node-firmware-operator", "app.kubernetes.io/component": "daemon",
			}},
			Spec: corev1.PodSpec{NodeName: on, TerminationGracePeriodSeconds: ptr.To[int64](0), Containers: []corev1.Container{{Name: "daemon", Image: "x"}}},
		})
		require.NoError(t, env.Client.Create(t.Context(), pods[len(pods)-1]))
	}
	b := newBench(t)
	b.client = env.Client
	b.tools = []vendortool.Finding{{Tool: "nvme", Version: "1.9", Support: vendortool.TooOld, Message: "version 1.9 is older than 2.3; install 2.3"}}
	b.restart()
	b.seen(t)

	env.TypeWayOut(t, "../../..", "NodeFirmware ToolUnsupported", b.node(t))
	require.True(t, apierrors.IsNotFound(env.Client.Get(t.Context(), client.ObjectKeyFromObject(pods[0]), pods[0])))
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKeyFromObject(pods[1]), pods[1]), "the daemon of another node stays")
	b.tools = nil
	b.restart()
	b.seen(t)
	assert.Nil(t, meta.FindStatusCondition(b.node(t).Status.Conditions, v1alpha1.ConditionDegraded))
}
