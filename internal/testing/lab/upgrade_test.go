package lab

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/child"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/lab/cluster"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/simhost"
)

// previous is the version before this one, built once.
var previous = sync.OnceValues(func() (p struct{ sources, programs, name string }, err error) {
	p.programs = filepath.Join(binDir, "previous")
	if err := os.MkdirAll(p.programs, 0o755); err != nil {
		return p, err
	}
	p.sources, p.name, err = child.BuildPrevious(p.programs, "firmware-operator", "firmware-daemon")
	return p, err
})

// versions is a lab whose programs are those of the previous version, until they are replaced.
type versions struct {
	*Lab
	t        *testing.T
	previous string
}

// startPrevious installs the previous version, with its manifests.
func startPrevious(t *testing.T, nodes int) *versions {
	t.Helper()
	p, err := previous()
	if errors.Is(err, child.ErrNoHistory) {
		t.Skip(err)
	}
	require.NoError(t, err)
	t.Logf("the previous version is %s", p.name)
	dir := t.TempDir()
	require.NoError(t, os.Symlink(filepath.Join(binDir, "firmware-simtools"), filepath.Join(dir, "firmware-simtools")))
	for _, program := range []string{"firmware-operator", "firmware-daemon"} {
		require.NoError(t, os.Symlink(filepath.Join(p.programs, program), filepath.Join(dir, program)))
	}
	l := startLabWith(t, Options{Nodes: nodes, BinDir: dir, Manifests: os.DirFS(filepath.Join(p.sources, "deploy"))})
	return &versions{Lab: l, t: t, previous: p.programs}
}

// replace has the next start of the program be one of the version in the directory.
func (v *versions) replace(program, version string) {
	v.t.Helper()
	next := v.binary(program) + ".next"
	require.NoError(v.t, os.Symlink(filepath.Join(version, program), next))
	require.NoError(v.t, os.Rename(next, v.binary(program)))
}

// operatorOf has the operator be of the version in the directory.
func (v *versions) operatorOf(version string) {
	v.t.Helper()
	v.replace("firmware-operator", version)
	v.KillOperator()
	require.NoError(v.t, v.StartOperator())
}

// daemonsOf has the daemons of all nodes be of the version in the directory, whatever they do.
func (v *versions) daemonsOf(version string) {
	v.t.Helper()
	v.replace("firmware-daemon", version)
	for _, n := range v.Nodes {
		n.KillDaemon()
		require.NoError(v.t, n.StartDaemon())
	}
}

// holdAll stops every machine in the middle of its next write.
func (v *versions) holdAll() {
	for i := range v.Nodes {
		v.scene(v.t, i).hold("write", 0)
	}
}

// writing waits until a node other than the given ones is in the middle of a write.
func (v *versions) writing(others ...*scene) (s *scene) {
	v.t.Helper()
	eventually(v.t, "another node writes", func() bool {
		for i := range v.Nodes {
			next := v.scene(v.t, i)
			if next.running("flash") && !slices.ContainsFunc(others, func(o *scene) bool { return o.node == next.node }) {
				s = next
				return true
			}
		}
		return false
	})
	return s
}

// R003-38, R003-42: a version is replaced in the middle of a rollout, the operator first or the daemons first, each while a node writes. Jobs of
// one version are finished by the other, nothing is flashed twice and nothing is lost: the rollout goes on, and a node brings back what the
// previous version archived. Going back, and on again, is no different.
func TestUpgradeDuringARollout(t *testing.T) {
	t.Parallel()
	for _, order := range []string{"operator first", "daemons first"} {
		t.Run(order, func(t *testing.T) {
			t.Parallel()
			v := startPrevious(t, 3)
			list := targetsOf("cx7", "pm9a3")
			for _, target := range list {
				require.NoError(t, target.publish(t.Context(), v.Lab))
			}
			v.holdAll()
			require.NoError(t, v.admin.Create(t.Context(), fleetTemplate(list)))
			first := v.writing()

			require.NoError(t, cluster.Install(t.Context(), v.admin), "the definitions of this version take what the previous one stored")
			steps := []func(string){v.operatorOf, v.daemonsOf}
			if order == "daemons first" {
				steps[0], steps[1] = steps[1], steps[0]
			}
			steps[0](binDir)
			require.NoError(t, first.node.Machine.ClearFault("held"))
			first.requireDone(list, 1)

			second := v.writing(first)
			steps[1](binDir)
			require.NoError(t, second.node.Machine.ClearFault("held"))
			second.requireDone(list, 1)

			third := v.writing(first, second)
			require.NoError(t, third.node.Machine.ClearFault("held"))
			third.requireDone(list, 1)
			for _, s := range []*scene{first, second, third} {
				assert.Equal(t, map[string]int{list[0].keys[0]: 1, list[1].keys[0]: 1}, s.flashes(), s.node.Name)
			}
			v.ready()

			first.restores(list[0].keys[0], simhost.DefaultCX7Version)
			v.operatorOf(v.previous)
			v.daemonsOf(v.previous)
			second.restores(list[0].keys[0], simhost.DefaultCX7Version)
			v.operatorOf(binDir)
			v.daemonsOf(binDir)
			third.restores(list[0].keys[0], simhost.DefaultCX7Version)
		})
	}
}

// ready waits until the template of the fleet says that every node runs what it declares.
func (v *versions) ready() {
	v.t.Helper()
	eventually(v.t, "the template is ready", func() bool {
		fwt := fleetTemplate(nil)
		if v.admin.Get(v.t.Context(), client.ObjectKeyFromObject(fwt), fwt) != nil {
			return false
		}
		c := meta.FindStatusCondition(fwt.Status.Conditions, v1alpha1.ConditionReady)
		return c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == fwt.Generation
	})
}

// restores has the node bring back the version that a device ran before its last update, from what the node archived then.
func (s *scene) restores(key, version string) {
	s.t.Helper()
	serial := ""
	spec, err := s.node.Machine.Spec()
	require.NoError(s.t, err)
	for _, n := range spec.NICs {
		if n.Key == key {
			serial = n.Serial
		}
	}
	var devices v1alpha1.NodeDeviceList
	require.NoError(s.t, s.lab.admin.List(s.t.Context(), &devices, client.MatchingFields{"spec.nodeName": s.node.Name}))
	before := s.flashes()[key]
	for _, d := range devices.Items {
		if d.Status.SerialNumber != serial {
			continue
		}
		require.NoError(s.t, s.lab.admin.Create(s.t.Context(), &v1alpha1.FirmwareJob{
			ObjectMeta: metav1.ObjectMeta{Name: s.node.Name + "-restore"},
			Spec: v1alpha1.FirmwareJobSpec{NodeName: s.node.Name, Task: v1alpha1.JobTask{
				Type: v1alpha1.JobTypeRestore, Devices: []v1alpha1.TaskDevice{{Name: d.Name}},
			}},
		}))
	}
	job := &v1alpha1.FirmwareJob{}
	eventually(s.t, "the firmware is restored", func() bool {
		return s.lab.admin.Get(s.t.Context(), client.ObjectKey{Name: s.node.Name + "-restore"}, job) == nil &&
			meta.IsStatusConditionTrue(job.Status.Conditions, v1alpha1.ConditionComplete)
	})
	running, err := s.node.Machine.Running(key)
	require.NoError(s.t, err)
	assert.Equal(s.t, version, running)
	assert.Equal(s.t, before+1, s.flashes()[key])
}
