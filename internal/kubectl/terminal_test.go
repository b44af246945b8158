package kubectl_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/kubectl"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
)

// terminal is a real one, with a person at its other end.
type terminal struct {
	person, program *os.File
	mu              sync.Mutex
	seen            strings.Builder
}

func newTerminal(t *testing.T, columns uint16) *terminal {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	require.NoError(t, err)
	require.NoError(t, unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	program, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	require.NoError(t, unix.IoctlSetWinsize(int(person.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns}))
	out := &terminal{person: person, program: program}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(out, person) // ends when the program's end is closed
	}()
	t.Cleanup(func() {
		require.NoError(t, program.Close())
		<-done
		require.NoError(t, person.Close())
	})
	return out
}

func (o *terminal) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.seen.Write(b)
}

func (o *terminal) shows() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.seen.String()
}

// start runs the command in the terminal. Its output is the file's of a redirection.
func (o *terminal) start(ctx context.Context, kubeconfig string, args ...string) (out *bytes.Buffer, code chan int) {
	out, code = &bytes.Buffer{}, make(chan int, 1)
	go func() {
		code <- kubectl.Run(ctx, append(args, "--kubeconfig", kubeconfig), genericiooptions.IOStreams{In: o.program, Out: out, ErrOut: o.program})
	}()
	return out, code
}

func (o *terminal) waitFor(t *testing.T, text string) {
	t.Helper()
	require.EventuallyWithT(t, func(ct *assert.CollectT) { assert.Contains(ct, o.shows(), text) }, time.Minute, 10*time.Millisecond)
}

func TestAPersonIsAsked(t *testing.T) {
	env := apitest.New(t)
	fleet(t, env.Client)
	access := env.ControlPlane.KubeconfigPath()
	requests := func() v1alpha1.NodeRequests { return read(t, env, "gpu-2", &v1alpha1.NodeFirmware{}).Spec.Requests }
	for answer, done := range map[string]bool{"\n": false, "n\n": false, "yess\n": false, "Y\n": true} {
		o := newTerminal(t, 80)
		out, code := o.start(t.Context(), access, "release", "gpu-2")
		o.waitFor(t, "Do it? [y/N] ")
		assert.Contains(t, o.shows(), "Node gpu-2 returns to service as it is")
		assert.Empty(t, requests())
		_, err := o.person.WriteString(answer)
		require.NoError(t, err)
		if done {
			assert.Zero(t, <-code)
			assert.Equal(t, "node/gpu-2: release requested\n", out.String())
			assert.NotEmpty(t, requests())
			require.NoError(t, env.Client.Patch(t.Context(), read(t, env, "gpu-2", &v1alpha1.NodeFirmware{}), patch(`{"spec":{"requests":null}}`)))
			continue
		}
		assert.Equal(t, 1, <-code, "%q", answer)
		o.waitFor(t, "Error: nothing was done")
		assert.Empty(t, out.String())
		assert.Empty(t, requests())
	}
	t.Run("an interrupt is no answer", func(t *testing.T) {
		ctx, interrupt := context.WithCancel(t.Context())
		o := newTerminal(t, 80)
		_, code := o.start(ctx, access, "release", "gpu-2")
		o.waitFor(t, "Do it? [y/N] ")
		interrupt()
		assert.Equal(t, 130, <-code)
		assert.Empty(t, requests())
		_, err := o.person.WriteString("\n") // ends the read
		require.NoError(t, err)
	})
	t.Run("what a person agreed to is what happens", func(t *testing.T) {
		o := newTerminal(t, 80)
		_, code := o.start(t.Context(), access, "release", "gpu-2")
		o.waitFor(t, "Do it? [y/N] ")
		held := read(t, env, "gpu-2", &v1alpha1.NodeFirmware{})
		held.Status.Conditions = []metav1.Condition{condition(v1alpha1.ConditionHeld, v1alpha1.ReasonWriteFailed, "Another job failed.")}
		require.NoError(t, env.Client.Status().Update(t.Context(), held))
		_, err := o.person.WriteString("y\n")
		require.NoError(t, err)
		assert.Equal(t, 1, <-code)
		o.waitFor(t, "node/gpu-2 has changed meanwhile, and nothing was written to it. What would happen now: Node gpu-2 returns")
		assert.Empty(t, requests())
	})
	t.Run("a change that does not matter is none", func(t *testing.T) {
		o := newTerminal(t, 80)
		_, code := o.start(t.Context(), access, "release", "gpu-2")
		o.waitFor(t, "Do it? [y/N] ")
		held := read(t, env, "gpu-2", &v1alpha1.NodeFirmware{})
		held.Status.BIOSVersion = "2.2"
		require.NoError(t, env.Client.Status().Update(t.Context(), held))
		_, err := o.person.WriteString("y\n")
		require.NoError(t, err)
		assert.Zero(t, <-code)
		assert.NotEmpty(t, requests())
	})
}

// TestWaiting: a bar in a terminal, lines elsewhere, and exit codes that a script can use.
func TestWaiting(t *testing.T) {
	env := apitest.New(t)
	fleet(t, env.Client)
	access := env.ControlPlane.KubeconfigPath()
	job := func(change func(*v1alpha1.FirmwareJobStatus)) {
		j := read(t, env, "gpu-3-1a2b3c4d", &v1alpha1.FirmwareJob{})
		change(&j.Status)
		require.NoError(t, env.Client.Status().Update(t.Context(), j))
	}
	job(func(s *v1alpha1.FirmwareJobStatus) {
		s.Steps = []v1alpha1.JobStep{{Name: "archive", State: v1alpha1.StepSucceeded, Attempt: 1}, {Name: "flash", Device: "gpu-3-nic", State: v1alpha1.StepRunning, Attempt: 1, ProgressPercent: new(int32(62))},
			{Name: "verify", State: v1alpha1.StepPending}, {Name: "health", State: v1alpha1.StepPending}}
	})
	o := newTerminal(t, 80)
	out, code := o.start(t.Context(), access, "wait", "gpu-3")
	o.waitFor(t, "\r\x1b[K[#####...............] 1/4 node/gpu-3: Step flash of gpu-3-nic runs, 62 % of i…")
	wide := newTerminal(t, 200)
	ctx, interrupt := context.WithCancel(t.Context())
	_, interrupted := wide.start(ctx, access, "wait", "gpu-3")
	wide.waitFor(t, "Step flash of gpu-3-nic runs, 62 % of it done.")
	interrupt()
	assert.Equal(t, 130, <-interrupted)
	wide.waitFor(t, "62 % of it done.\r\x1b[K") // the line is gone
	_, said, ended := shell(t, access, "wait", "gpu-3", "--timeout", "10ms")
	assert.Equal(t, 1, ended)
	assert.Equal(t, "node/gpu-3: Step flash of gpu-3-nic runs, 62 % of it done. (1 of 4)\n"+
		"Error: node/gpu-3 is not done after 10ms: Step flash of gpu-3-nic runs, 62 % of it done.\n", said)

	job(func(s *v1alpha1.FirmwareJobStatus) {
		s.Conditions = []metav1.Condition{condition(v1alpha1.ConditionComplete, v1alpha1.ReasonSucceeded, ""), condition(v1alpha1.ConditionReady, v1alpha1.ReasonSucceeded, "Every device runs its target.")}
	})
	n := read(t, env, "gpu-3", &v1alpha1.NodeFirmware{})
	n.Status.Conditions = []metav1.Condition{condition(v1alpha1.ConditionReady, v1alpha1.ReasonUpToDate, "1 of 1 devices run their firmware.")}
	require.NoError(t, env.Client.Status().Update(t.Context(), n))
	assert.Zero(t, <-code)
	assert.Equal(t, "node/gpu-3: 1 of 1 devices run their firmware.\n", out.String())

	transcript(t, access, "wait", []typed{
		{0, "wait gpu-3-1a2b3c4d"},
		{0, "wait gpu-1"},
		{1, "wait gpu-2"},
		{1, "wait gpu-2-1a2b3c4d"},
		{1, "wait policy/gpu"},
		{1, "wait template/gpu --timeout 10ms"},
		{1, "wait gpu-4 --timeout 10ms"},
		{1, "wait source/cx6dx-2241"},
		{1, "wait gpu-22"},
	})
	t.Run("a node that is to be tried again is waited for", func(t *testing.T) {
		require.NoError(t, env.Client.Patch(t.Context(), read(t, env, "gpu-2", &v1alpha1.NodeFirmware{}), patch(`{"spec":{"requests":{"retry":"again"}}}`)))
		_, said, code := shell(t, access, "wait", "gpu-2", "--timeout", "10ms")
		assert.Equal(t, 1, code)
		assert.Contains(t, said, "node/gpu-2 is not done after 10ms")
	})
	t.Run("a paused policy needs a person", func(t *testing.T) {
		p := read(t, env, "gpu", &v1alpha1.RolloutPolicy{})
		p.Spec.State = v1alpha1.RolloutPaused
		require.NoError(t, env.Client.Update(t.Context(), p))
		p.Status.ObservedGeneration, p.Status.Conditions = p.Generation, []metav1.Condition{not(condition(v1alpha1.ConditionReady, v1alpha1.ReasonPaused, "It is paused."))}
		require.NoError(t, env.Client.Status().Update(t.Context(), p))
		_, said, code := shell(t, access, "wait", "policy/gpu")
		assert.Equal(t, 1, code)
		assert.Equal(t, "Error: policy/gpu: It is paused. To go on: kubectl firmware resume policy/gpu\n", said)
	})
}
