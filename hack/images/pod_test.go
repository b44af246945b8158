package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/nodefirmware/node-firmware-operator/deploy"
)

// pod is how a program runs in the container of the shipped DaemonSet: the image's files, the mounts and the environment.
type pod struct {
	// Root is the directory of the image's files.
	Root     string
	ReadOnly bool
	// Mounts are in the order in which they are made.
	Mounts []mount
	Env    []string
}

// mount is one mount of a directory of this machine.
type mount struct {
	Source, Target string
	ReadOnly       bool
}

// shippedDaemon is the DaemonSet in deploy/kustomize.
func shippedDaemon(t *testing.T) *appsv1.DaemonSet {
	t.Helper()
	objects, err := deploy.Objects(deploy.Daemon)
	require.NoError(t, err)
	for _, o := range objects {
		if o.GetKind() == "DaemonSet" {
			ds := &appsv1.DaemonSet{}
			require.NoError(t, k8sruntime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, ds, true))
			return ds
		}
	}
	require.Fail(t, "deploy/kustomize/daemon has no DaemonSet")
	return nil
}

// podOf makes what a kubelet makes of a pod, as far as tools notice. The host is a directory in which nothing is but what the
// manifest has made there; only /dev, /sys and /proc are this machine's.
func podOf(t *testing.T, spec corev1.PodSpec, root, host string) pod {
	t.Helper()
	require.Len(t, spec.Containers, 1)
	c := spec.Containers[0]
	require.NotNil(t, c.SecurityContext)
	require.True(t, *c.SecurityContext.Privileged, "this test runs tools with all capabilities, which the container has only if it is privileged")
	require.True(t, spec.HostPID, "this test shows tools the processes of the host, which the pod sees only with hostPID")
	require.Nil(t, c.SecurityContext.RunAsUser, "this test runs tools as the user of the image")
	p := pod{Root: root, ReadOnly: *c.SecurityContext.ReadOnlyRootFilesystem, Mounts: []mount{{Source: "/proc", Target: "/proc"}}}
	p.Env = []string{"LC_ALL=C", "HOME=/"}
	for _, dir := range []string{"proc", "sys", "dev"} {
		require.NoError(t, os.MkdirAll(filepath.Join(host, dir), 0o755))
	}
	sources := map[string]string{}
	for _, v := range spec.Volumes {
		sources[v.Name] = sourceOf(t, v, host)
	}
	for _, m := range c.VolumeMounts {
		require.Contains(t, sources, m.Name)
		require.Empty(t, m.SubPath+m.SubPathExpr, "this test mounts whole volumes")
		p.Mounts = append(p.Mounts, mount{Source: sources[m.Name], Target: m.MountPath, ReadOnly: m.ReadOnly})
		if sources[m.Name] == host { // a host has its processes there
			p.Mounts = append(p.Mounts, mount{Source: "/proc", Target: filepath.Join(m.MountPath, "proc")})
		}
	}
	slices.SortStableFunc(p.Mounts, func(a, b mount) int { return strings.Count(a.Target, "/") - strings.Count(b.Target, "/") })
	return p
}

// sourceOf is the directory behind a volume.
func sourceOf(t *testing.T, v corev1.Volume, host string) string {
	t.Helper()
	switch {
	case v.HostPath != nil && slices.Contains([]string{"/dev", "/sys"}, v.HostPath.Path):
		return v.HostPath.Path
	case v.HostPath != nil:
		dir := filepath.Join(host, v.HostPath.Path)
		switch *v.HostPath.Type {
		case corev1.HostPathDirectoryOrCreate:
			require.NoError(t, os.MkdirAll(dir, 0o755))
		case corev1.HostPathDirectory:
			require.DirExists(t, dir, "nothing makes it on a host that has nothing")
		default:
			require.Fail(t, "this test knows no volume of the type "+string(*v.HostPath.Type))
		}
		return dir
	case v.EmptyDir != nil, v.ConfigMap != nil, v.Projected != nil:
		return t.TempDir()
	}
	require.Fail(t, "this test knows no such volume: "+v.Name)
	return ""
}

// enterArgument makes the test binary a program that enters a pod and becomes another one.
const enterArgument = "enter-pod"

// TestMain lets the test binary enter pods.
func TestMain(m *testing.M) {
	if len(os.Args) > 3 && os.Args[1] == enterArgument {
		err := enter(os.Args[2], os.Args[3:])
		fmt.Fprintln(os.Stderr, "enter pod:", err)
		if errors.Is(err, exec.ErrNotFound) {
			os.Exit(127)
		}
		os.Exit(125)
	}
	os.Exit(m.Run())
}

// prefix is what stands before a command line that is to run in the pod.
func (p pod) prefix(t *testing.T) []string {
	t.Helper()
	text, err := json.Marshal(p)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "pod.json")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	self, err := os.Executable()
	require.NoError(t, err)
	return []string{self, enterArgument, file}
}

// enter becomes a program in a pod, in mounts of its own, as the runtime of containers makes them.
func enter(file string, argv []string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var p pod
	if err := json.Unmarshal(text, &p); err != nil {
		return err
	}
	runtime.LockOSThread() // the mounts and the root are the thread's until it becomes the program
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("keep mounts apart: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keep mounts private: %w", err)
	}
	if err := p.mountAll(); err != nil {
		return err
	}
	if err := errors.Join(unix.Chroot(p.Root), unix.Chdir("/")); err != nil {
		return fmt.Errorf("change root: %w", err)
	}
	path := ""
	for _, v := range p.Env {
		if list, found := strings.CutPrefix(v, "PATH="); found {
			path = list
		}
	}
	for _, dir := range filepath.SplitList(path) {
		full := filepath.Join(dir, argv[0])
		if info, err := os.Stat(full); err == nil && info.Mode()&0o111 != 0 {
			return syscall.Exec(full, argv, p.Env)
		}
	}
	return fmt.Errorf("%w: %s", exec.ErrNotFound, argv[0])
}

// inside is the path of a file of the root, also where links in it are absolute, as /var/run is.
func inside(root, path string) string {
	parts := strings.Split(strings.Trim(filepath.Clean(path), "/"), "/")
	at := root
	for i, part := range parts {
		at = filepath.Join(at, part)
		link, err := os.Readlink(at)
		if err != nil {
			continue
		}
		if !filepath.IsAbs(link) {
			link = filepath.Join("/", filepath.Join(parts[:i]...), link)
		}
		return inside(root, filepath.Join("/", link, filepath.Join(parts[i+1:]...)))
	}
	return at
}

func (p pod) mountAll() error {
	bind := func(source, target string, flags uintptr) error {
		if err := unix.Mount(source, target, "", unix.MS_BIND|flags, ""); err != nil {
			return fmt.Errorf("mount %s at %s: %w", source, target, err)
		}
		return nil
	}
	if err := bind(p.Root, p.Root, 0); err != nil {
		return err
	}
	for _, m := range p.Mounts {
		target := inside(p.Root, m.Target)
		if err := os.MkdirAll(target, 0o755); err != nil { // the runtime makes it in the image's upper layer
			return fmt.Errorf("make a place for a mount: %w", err)
		}
		if err := bind(m.Source, target, unix.MS_REC); err != nil {
			return err
		}
		if !m.ReadOnly {
			continue
		}
		if err := bind("", target, unix.MS_REMOUNT|unix.MS_RDONLY); err != nil { // not recursively, as the runtime does
			return err
		}
	}
	if !p.ReadOnly {
		return nil
	}
	return bind("", p.Root, unix.MS_REMOUNT|unix.MS_RDONLY)
}
