package kubectl_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/kubectl"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
	"github.com/nodefirmware/node-firmware-operator/internal/view"
)

// TestTheViewOfARealAPIServer: a viewer lacks one right for the view, and is told which; with it, the view follows what changes until Ctrl-C.
func TestTheViewOfARealAPIServer(t *testing.T) {
	env := apitest.New(t)
	fleet(t, env.Client)
	access := viewer(t, env, "node-firmware-viewer")
	out, said, code := shell(t, access, "ui")
	assert.Equal(t, 1, code)
	assert.Empty(t, out)
	assert.Regexp(t, `user someone-node-firmware-viewer may not (list|watch) nodes\.`, said)
	assert.Contains(t, said, "kubectl create clusterrole node-reader --verb=get,list,watch --resource=nodes;")

	for _, o := range []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "node-reader"}, Rules: []rbacv1.PolicyRule{{Verbs: []string{"get", "list", "watch"}, APIGroups: []string{""}, Resources: []string{"nodes"}}}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "node-reader"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "node-reader"},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "someone-node-firmware-viewer"}}},
	} {
		require.NoError(t, client.IgnoreAlreadyExists(env.Client.Create(t.Context(), o)))
	}
	require.Eventually(t, func() bool { _, _, code := shell(t, access, "plan"); return code != 1 }, 5*time.Minute, 100*time.Millisecond) // roles take a moment to be in force

	ctx, interrupt := context.WithCancel(t.Context())
	address, write := io.Pipe()
	var words bytes.Buffer
	ended := make(chan int, 1)
	go func() {
		ended <- kubectl.Run(ctx, []string{"ui", "--kubeconfig", access}, genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: write, ErrOut: &words})
		write.Close()
	}()
	lines := bufio.NewScanner(address)
	require.True(t, lines.Scan())
	u, err := url.Parse(lines.Text())
	require.NoError(t, err)
	ask := func(path string) *http.Response {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+u.Host+path, nil)
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+strings.TrimPrefix(u.Fragment, "token="))
		answer, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		return answer
	}
	answer := ask("/api/node?name=gpu-2")
	var n view.Node
	require.NoError(t, json.NewDecoder(answer.Body).Decode(&n))
	require.NoError(t, answer.Body.Close())
	assert.Equal(t, "kubectl firmware --kubeconfig="+access+" retry gpu-2", n.Next[0].Typed)
	answer = ask("/api/forecast")
	assert.Equal(t, http.StatusOK, answer.StatusCode)
	require.NoError(t, answer.Body.Close())

	stream := ask("/api/stream")
	defer stream.Body.Close()
	told := bufio.NewScanner(stream.Body)
	told.Buffer(nil, 1<<20)
	until := func(part string) {
		t.Helper()
		for told.Scan() {
			if strings.Contains(told.Text(), part) {
				return
			}
		}
		t.Fatalf("the stream ended without %s: %v", part, told.Err())
	}
	until(`"name":"gpu-2","state":"held"`)
	until(`"cluster":"lab"`)
	held := &v1alpha1.NodeFirmware{}
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKey{Name: "gpu-2"}, held))
	held.Status.HeldBy = ""
	held.Status.Conditions = []metav1.Condition{condition(v1alpha1.ConditionReady, v1alpha1.ReasonUpToDate, "It was released.")}
	require.NoError(t, env.Client.Status().Update(t.Context(), held))
	until(`"name":"gpu-2","state":"done"`)

	interrupt()
	assert.Equal(t, 0, <-ended)
	assert.Contains(t, words.String(), "Open this address in a browser of this machine. Ctrl-C ends the view.\n")
}

func TestAPortIsChecked(t *testing.T) {
	_, said, code := shell(t, "/nonexistent", "ui", "--port", "70000")
	assert.Equal(t, 1, code)
	assert.Contains(t, said, "--port 70000: want 0, for any that is free, to 65535")
}
