package operator

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/kubectl/pkg/cmd/wait"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
)

// kubectlWait is "kubectl wait nodefirmware/NODE --for=..." with the code of kubectl. It is made before it runs, so that a test can
// begin to wait and then act. It prints a line when a condition is met, and then waits for the next one.
func (d *daemons) kubectlWait(node string, timeout time.Duration, out io.Writer, conditions ...string) error {
	access := genericclioptions.NewConfigFlags(false)
	access.KubeConfig = &d.conf.Kubeconfig
	flags := wait.NewWaitFlags(access, genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: out, ErrOut: &bytes.Buffer{}})
	flags.Timeout, flags.ForCondition = timeout, conditions
	options, err := flags.ToOptions([]string{"nodefirmware/" + node})
	if err != nil {
		return err
	}
	return options.RunWaitContext(d.t.Context())
}

// What docs/concepts/only-what-changed.md tells people to wait for.
const (
	waitForLabel      = `jsonpath={.metadata.labels.nodefirmware\.io/obsolete}=true`
	waitForNoLabel    = `condition=Current`
	waitForNoLabelToo = `jsonpath={.status.conditions[?(@.type=="Current")].status}=True`
)

// R004-22: a person waits for the label, and for its absence, with the code of kubectl. A JSONPath of the label can wait for its
// presence only: kubectl takes no result for "not yet". The condition Current is True exactly while the label is absent.
func TestAPersonWaitsForTheLabelAndForItsAbsence(t *testing.T) {
	p := start(t, apitest.New(t), "daemon")
	d := p.daemons()
	p.policy("Active")
	p.images("1", "2")
	p.template("1")
	d.join("1", "n1")
	require.NoError(t, d.kubectlWait("n1", 0, io.Discard, waitForNoLabel))
	require.NoError(t, d.kubectlWait("n1", 0, io.Discard, waitForNoLabelToo))
	require.ErrorContains(t, d.kubectlWait("n1", 0, io.Discard, waitForLabel), "condition not met")

	release := d.holdJobs()
	said, through := &logged{}, make(chan error, 1)
	go func() { through <- d.kubectlWait("n1", 10*time.Minute, said, waitForLabel, waitForNoLabel) }()
	d.pin("n1", "2")
	d.eventually("it has seen the label", func() bool {
		said.mu.Lock()
		defer said.mu.Unlock()
		return strings.Contains(said.text.String(), "condition met")
	})
	assert.NotEmpty(t, d.obsolete("n1"))
	require.ErrorContains(t, d.kubectlWait("n1", 0, io.Discard, waitForNoLabel), "condition not met")
	require.ErrorContains(t, d.kubectlWait("n1", 0, io.Discard, waitForNoLabelToo), "condition not met")
	require.NoError(t, d.kubectlWait("n1", 0, io.Discard, waitForLabel))
	release()
	require.NoError(t, <-through)
	assert.Equal(t, "2", d.device("n1").Status.Firmware.Running)
	assert.True(t, d.isCurrent("n1"))
	p.stop()
	require.NoError(t, <-p.done)
	p.done <- nil
}
