package lab

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/kubectl"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/simhost"
)

// reader is a person who does what the pages of docs/tasks say.
type reader struct {
	*testing.T
	lab  *Lab
	read map[string]bool
	// files are where what was kept is, by the name that the page gives it.
	files map[string]string
}

const repository = "../../.."

// readerOf has the lab of the quickstart with its sources, in a directory that may have machines already.
func readerOf(t *testing.T, nodes int, dir string) *reader {
	t.Helper()
	reserve(t, nodes)
	l, err := Up(t.Context(), Options{
		Nodes: nodes, Dir: dir, BinDir: binDir, Out: &lines{}, ScanInterval: 30 * time.Second, WriteTime: 800 * time.Millisecond,
		QuietPeriod: time.Second, HealthTimeout: 30 * time.Second,
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	r := &reader{T: t, lab: l, read: map[string]bool{}, files: map[string]string{}}
	made, err := exec.CommandContext(t.Context(), repository+"/docs/examples/lab/sources.sh", dir).Output()
	require.NoError(t, err)
	sources := filepath.Join(t.TempDir(), "sources.yaml")
	require.NoError(t, os.WriteFile(sources, made, 0o600))
	r.kubectl("kubectl apply -f " + sources)
	r.kubectl("kubectl wait fws --all --for=condition=Ready --timeout=10m") // what a page foretells depends on what is in store
	return r
}

// types has the commands of a page typed in their order; of those sections alone whose headings are given.
func (r *reader) types(page string, sections ...string) {
	r.Helper()
	text, err := os.ReadFile(filepath.Join(repository, "docs/tasks", page))
	require.NoError(r, err)
	typed, section := 0, ""
	for _, line := range strings.Split(string(text), "\n") {
		if heading, is := strings.CutPrefix(line, "## "); is {
			section = heading
		}
		command, is := strings.CutPrefix(line, "$ ")
		if !is || len(sections) > 0 && !slices.Contains(sections, section) {
			continue
		}
		if strings.Contains(command, " JOB ") {
			command = strings.Replace(command, "JOB", r.lab.scene(r.T, 0).job().Name, 1)
		}
		r.kubectl(strings.ReplaceAll(command, "-f docs/", "-f "+repository+"/docs/"))
		typed++
	}
	require.NotZero(r, typed, page)
	r.read[page] = true
}

func (r *reader) kubectl(command string) (said string) {
	r.Helper()
	if verb, is := strings.CutPrefix(command, "kubectl firmware "); is {
		verb, file, keeps := strings.Cut(verb, " > ")
		var words []string
		for i, part := range strings.Split(verb, "'") { // what is between apostrophes is one word
			if i%2 == 1 {
				words = append(words, part)
			} else {
				words = append(words, strings.Fields(part)...)
			}
		}
		for i := range words {
			if path := r.files[words[i]]; path != "" {
				words[i] = path
			}
		}
		if !slices.Contains([]string{"plan", "exposure", "report", "status", "why", "wait", "history"}, words[0]) { // it writes
			words = append(words, "--yes")
		}
		want := 0
		if words[0] == "plan" {
			want = 2 // something would change
		}
		var out bytes.Buffer
		streams := genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &out, ErrOut: &out}
		require.Equal(r, want, kubectl.Run(r.Context(), append(words, "--kubeconfig", r.lab.KubeconfigPath()), streams), "%s: %s", command, &out)
		if keeps {
			r.files[file] = filepath.Join(r.TempDir(), file)
			require.NoError(r, os.WriteFile(r.files[file], out.Bytes(), 0o600))
		}
		return out.String()
	}
	return apitest.Kubectl(r.T, r.lab.KubeconfigPath(), command)
}

// running are the versions of the adapters of a node.
func (r *reader) running(node string) []string {
	var devices v1alpha1.NodeDeviceList
	require.NoError(r, r.lab.admin.List(r.Context(), &devices, client.MatchingFields{"spec.nodeName": node, "status.class": string(v1alpha1.ClassNIC)}))
	var out []string
	for _, d := range devices.Items {
		out = append(out, d.Status.Firmware.Running)
	}
	slices.Sort(out)
	return out
}

// The commands of the pages of docs/tasks do what these say, in the lab of the quickstart.
func TestTaskPages(t *testing.T) {
	t.Parallel()
	r := readerOf(t, 2, t.TempDir())
	l := r.lab
	first, second := l.scene(t, 0), l.scene(t, 1)
	eventually(t, "the devices are listed", func() bool { return len(r.running("node-0")) == 2 && len(r.running("node-1")) == 2 })

	r.types("what-will-reboot.md")
	says := strings.Fields(r.kubectl("kubectl get ndev --field-selector status.class=NIC -o custom-columns=D:.spec.firmware.version,A:.status.firmware.activation"))
	assert.ElementsMatch(t, strings.Fields("D A 22.41.1000 DeviceReset 28.41.1000 Reboot 22.41.1000 DeviceReset 28.41.1000 Reboot"), says)
	r.types("which-nodes-run-old-firmware.md")
	assert.Zero(t, first.writes()+second.writes(), "so far nothing was flashed")

	r.types("roll-out-safely.md")
	for _, node := range l.Nodes {
		assert.Equal(t, []string{"22.41.1000", "28.41.1000"}, r.running(node.Name))
	}
	assert.Equal(t, 1, first.node.Reboots(), "as many as the page on reboots said")
	assert.Less(t, began(t, first), began(t, second), "the canary goes first")
	r.types("mixed-fleet.md")

	release := first.hold("write", 0)
	r.kubectl(`kubectl patch nfw node-0 --type=merge -p '{"spec":{"pins":[{"name":"older","selector":{"class":"NIC","models":["101d"]},"version":"22.40.1000",` +
		`"sourceRef":{"name":"cx6dx-2240"},"downgrade":"Allow"}]}}'`)
	eventually(t, "a write runs", func() bool { return first.running("flash") })
	r.types("stop-everything.md", "Stop", "Stop without the plugin")
	release()
	eventually(t, "the job ends after its write", func() bool { return first.condition(v1alpha1.ConditionFailed) == "True "+v1alpha1.ReasonCancelled })
	r.types("stop-everything.md", "Go on", "Go on without the plugin")
	eventually(t, "the node runs the pinned version and is back", func() bool {
		return slices.Equal(r.running("node-0"), []string{"22.40.1000", "28.41.1000"}) && first.maintenances() == 0 && !first.kubeNode().Spec.Unschedulable
	})

	r.read["first-rollout.md"] = true // by the next test
	pages, err := filepath.Glob(repository + "/docs/tasks/*.md")
	require.NoError(t, err)
	assert.Len(t, r.read, len(pages), "every page was typed")
}

// Somebody who has never seen it finds out what will reboot, rolls it, meets a held node, learns why and mends it by the command that they are told.
func TestAFirstRolloutThatMeetsAHeldNode(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := readerOf(t, 2, dir)
	first, second := r.lab.scene(t, 0), r.lab.scene(t, 1)
	eventually(t, "the devices are listed", func() bool { return len(r.running("node-0")) == 2 && len(r.running("node-1")) == 2 })
	faults := filepath.Join(dir, "nodes/node-0/host/var/lib/simhost/faults.json")
	worn := `[{"ID":"worn-flash","Kind":"Fail","Tool":"mstflint","Operation":"write","ExitCode":1,"Stderr":"-E- Burning FS4 image failed: Flash write failed"}]`
	require.NoError(t, os.WriteFile(faults, []byte(worn), 0o600))
	r.types("first-rollout.md", "")
	assert.Contains(t, r.kubectl("kubectl firmware plan -f "+repository+"/docs/examples/lab/template.yaml"), "2 nodes would be rebooted once")
	r.types("first-rollout.md", "Find out what will reboot", "Roll it out")
	eventually(t, "node-0 is held", func() bool {
		said := r.kubectl("kubectl firmware status")
		return strings.Contains(said, "kubectl firmware why node-0") && strings.Contains(said, "RolloutHalted")
	})
	assert.Contains(t, r.kubectl("kubectl firmware why node-0"), "To try again:\n  kubectl firmware retry node-0\n")
	r.types("first-rollout.md", "Learn why")
	require.NoError(t, os.Remove(faults))
	r.types("first-rollout.md", "Mend it")
	for i, node := range r.lab.Nodes {
		assert.Equal(t, []string{"22.41.1000", "28.41.1000"}, r.running(node.Name))
		assert.Equal(t, 1, []*scene{first, second}[i].node.Reboots(), "as many as the plan said")
	}
	assert.Contains(t, r.kubectl("kubectl firmware history node-0"), "WriteFailed")
}

// began is the time of the first write to a device of the node.
func began(t *testing.T, s *scene) int64 {
	ops, err := s.node.Machine.Operations()
	require.NoError(t, err)
	i := slices.IndexFunc(ops, func(op simhost.Operation) bool { return op.Action == "Write" })
	require.GreaterOrEqual(t, i, 0)
	return ops[i].Time.UnixNano()
}

// TestMixedFleet: a fleet that runs four versions reaches one with one canary, though three of them have no canary of their own.
func TestMixedFleet(t *testing.T) {
	t.Parallel()
	dir, runs := t.TempDir(), []string{"22.36.1010", "22.37.1014", "22.38.1002", "22.39.1002", "22.39.1002"}
	for i, version := range runs {
		spec := simhost.DefaultSpec(fmt.Sprintf("node-%d", i), i)
		spec.NICs[0].Version = version
		spec.WriteTime = 800 * time.Millisecond
		_, err := simhost.Create(filepath.Join(dir, "nodes", fmt.Sprintf("node-%d", i), "host"), spec)
		require.NoError(t, err)
	}
	r := readerOf(t, len(runs), dir)
	r.kubectl("kubectl apply -f " + repository + "/docs/examples/rolloutpolicy.yaml")
	r.kubectl(`kubectl patch rp gpu --type=merge -p '{"spec":{"maxUnavailable":5,"healthyFor":"1s","waves":[{"name":"canary","nodeSelector":{"matchLabels":{"firmware-canary":"true"}},"soak":"1s"}]}}'`)
	r.kubectl("kubectl label node node-4 firmware-canary=true")
	r.kubectl("kubectl apply -f " + repository + "/docs/examples/lab/template.yaml")
	r.kubectl("kubectl wait fwt/gpu-nics --for=condition=Ready --timeout=15m")
	for i := range runs {
		assert.Equal(t, []string{"22.41.1000", "28.41.1000"}, r.running(fmt.Sprintf("node-%d", i)))
		if i < 4 {
			assert.Less(t, began(t, r.lab.scene(t, 4)), began(t, r.lab.scene(t, i)), "the canary goes first")
		}
	}
	policy := &v1alpha1.RolloutPolicy{}
	eventually(t, "a node succeeded from each version", func() bool {
		require.NoError(t, r.lab.admin.Get(t.Context(), client.ObjectKey{Name: "gpu"}, policy))
		i := slices.IndexFunc(policy.Status.Rollouts, func(u v1alpha1.RolloutStatus) bool { return u.Version == "22.41.1000" })
		if i < 0 {
			return false
		}
		from := slices.Sorted(slices.Values(policy.Status.Rollouts[i].FromVersions))
		return slices.Equal(from, slices.Compact(slices.Clone(runs)))
	})
}
