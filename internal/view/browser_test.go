package view_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/forecast"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
	"github.com/nodefirmware/node-firmware-operator/internal/view"
)

// serve serves a view of the API server, and returns its address and what ends it.
func serve(t testing.TB, api client.WithWatch, now func() time.Time) (url string, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- view.Serve(ctx, view.Options{
			API: api, Cluster: "production", Flags: "--context=production", Now: now, Explain: func(err error) string { return "explained: " + err.Error() },
			Forecast: func(context.Context) (*forecast.Forecast, error) { return played(now()), nil }, Ready: func(url string) { ready <- url },
		})
	}()
	stop = func() {
		cancel()
		require.NoError(t, <-ended)
	}
	select {
	case url = <-ready:
	case err := <-ended:
		require.NoError(t, err)
		t.Fatal("it ended")
	}
	return url, stop
}

// played is what is about to be done in the pool gpu.
func played(now time.Time) *forecast.Forecast {
	f := &forecast.Forecast{Ends: now.Add(31 * time.Hour)}
	for i := range 60 {
		starts := now.Add(time.Duration(i/8) * 25 * time.Minute)
		if i >= 24 {
			starts = now.Add(9*time.Hour + time.Duration(i/8)*25*time.Minute)
		}
		name := fmt.Sprintf("gpu-%03d", 60+i)
		f.Nodes = append(f.Nodes, &forecast.Node{Name: name, Jobs: []*forecast.Job{{
			Node: name, Policy: "gpu", Wave: "rest", Starts: starts, Took: 19 * time.Minute, Impact: forecast.Reboots,
		}}})
	}
	f.Nodes = append(f.Nodes, &forecast.Node{Name: "waits", Jobs: []*forecast.Job{{Policy: "gpu", Waits: schedule.Reason(v1alpha1.ReasonRolloutHalted)}}})
	return f
}

// TestTheViewInABrowser clicks through the view of a fleet, and of one of 5,000 nodes, and makes the pictures of the documentation. make ui-test
// says which browser.
func TestTheViewInABrowser(t *testing.T) {
	browser := os.Getenv("UI_BROWSER")
	if browser == "" {
		t.Skip("UI_BROWSER names no browser; make ui-test does")
	}
	pictures, err := filepath.Abs("../../docs/images")
	require.NoError(t, err)
	now := time.Now()
	small := inMemory(t, fleet(now, 96))
	url, stop := serve(t, small, time.Now)
	run(t, browser, small, url, "pages", pictures)
	stop()
	large := inMemory(t, fleet(now, 5000))
	url, stop = serve(t, large, time.Now)
	run(t, browser, large, url, "large", pictures)
	stop()
}

// run drives the browser, and does to the objects what the script asks for.
func run(t *testing.T, browser string, api client.Client, url, what, pictures string) {
	t.Helper()
	script := exec.CommandContext(t.Context(), "node", "test/view.mjs", url, what, pictures)
	script.Dir = "web"
	script.Env = append(os.Environ(), "UI_BROWSER="+browser)
	script.Stderr = os.Stderr
	in, err := script.StdinPipe()
	require.NoError(t, err)
	out, err := script.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, script.Start())
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		verb, name, _ := strings.Cut(lines.Text(), " ")
		if verb != "hold" {
			t.Log(lines.Text())
			continue
		}
		hold(t, api, name)
		_, err := fmt.Fprintln(in, "done")
		require.NoError(t, err)
	}
	assert.NoError(t, script.Wait())
}

// hold has the node say that a failed job holds it.
func hold(t *testing.T, api client.Client, name string) {
	t.Helper()
	n := &v1alpha1.NodeFirmware{}
	require.NoError(t, api.Get(t.Context(), client.ObjectKey{Name: name}, n))
	n.Status.HeldBy = "a-job"
	meta.SetStatusCondition(&n.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionHeld, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonUnhealthy, Message: "It is held."})
	require.NoError(t, api.Status().Update(t.Context(), n))
}
