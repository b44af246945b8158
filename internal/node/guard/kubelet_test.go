package guard

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fakeHost is a host as two directories: its /proc, and its files.
type fakeHost struct {
	t          *testing.T
	proc, root string
}

func newHost(t *testing.T, dir string) fakeHost {
	t.Helper()
	h := fakeHost{t, filepath.Join(dir, "proc"), filepath.Join(dir, "root")}
	h.kubelet("1", "--kubeconfig=/etc/kubernetes/kubelet.conf", "--config", "/var/lib/kubelet/config.yaml")
	h.file("/var/lib/kubelet/config.yaml", "staticPodPath: /etc/kubernetes/manifests\n")
	h.file("/etc/kubernetes/kubelet.conf", "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts:\n- {name: a, context: {cluster: b}}\n"+
		"clusters:\n- {name: b, cluster: {server: \"https://10.0.0.1:6443\"}}\n")
	require.NoError(t, os.MkdirAll(filepath.Join(h.root, "/etc/kubernetes/manifests"), 0o700))
	return h
}

// kubelet makes the kubelet a child of the process.
func (h fakeHost) kubelet(parent string, args ...string) {
	h.t.Helper()
	write(h.t, filepath.Join(h.proc, "1/comm"), "systemd\n")
	write(h.t, filepath.Join(h.proc, "77/comm"), "rke2\n")
	write(h.t, filepath.Join(h.proc, "812/comm"), "kubelet\n")
	write(h.t, filepath.Join(h.proc, "812/stat"), "812 (kubelet) S "+parent+" 812 812 0 -1")
	write(h.t, filepath.Join(h.proc, "812/status"), "Name:\tkubelet\nUid:\t0\t0\t0\t0\n")
	write(h.t, filepath.Join(h.proc, "812/cmdline"), strings.Join(append([]string{"/usr/bin/kubelet"}, args...), "\x00")+"\x00")
}

func (h fakeHost) file(path, content string) {
	h.t.Helper()
	write(h.t, filepath.Join(h.root, path), content)
}

func write(t *testing.T, path, content string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
}

func TestKubeletIsFoundByItsCommandLineAndConfiguration(t *testing.T) {
	h := newHost(t, t.TempDir())
	k, err := FindKubelet(h.proc, h.root)
	require.NoError(t, err)
	assert.Equal(t, Kubelet{Manifests: "/etc/kubernetes/manifests", Server: "https://10.0.0.1:6443"}, k)

	for name, change := range map[string]func(fakeHost){
		"by its flag": func(h fakeHost) {
			h.kubelet("1", "--kubeconfig=/etc/kubernetes/kubelet.conf", "--config=/var/lib/kubelet/config.yaml", "--pod-manifest-path=/opt/pods")
		},
		"by the last drop-in": func(h fakeHost) {
			h.kubelet("1", "--kubeconfig=/etc/kubernetes/kubelet.conf", "--config=/var/lib/kubelet/config.yaml", "--config-dir=/etc/kubelet.d")
			h.file("/etc/kubelet.d/10-a.conf", "staticPodPath: /elsewhere\n")
			h.file("/etc/kubelet.d/20-b.conf", "staticPodPath: /opt/pods\n")
			h.file("/etc/kubelet.d/30-c.yaml", "staticPodPath: /ignored\n")
		},
		"relative to its configuration": func(h fakeHost) {
			h.file("/opt/config.yaml", "staticPodPath: pods\n")
			h.kubelet("1", "--kubeconfig=/etc/kubernetes/kubelet.conf", "--config=/opt/config.yaml")
		},
		"through links of the host": func(h fakeHost) {
			require.NoError(h.t, os.Symlink("/srv", filepath.Join(h.root, "var/lib/linked")))
			require.NoError(h.t, os.MkdirAll(filepath.Join(h.root, "srv"), 0o700))
			h.file("/srv/config.yaml", "staticPodPath: /opt/pods\n")
			h.kubelet("1", "--kubeconfig=/etc/kubernetes/kubelet.conf", "--config=/var/lib/linked/config.yaml")
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, t.TempDir())
			require.NoError(t, os.MkdirAll(filepath.Join(h.root, "opt/pods"), 0o700))
			change(h)
			k, err := FindKubelet(h.proc, h.root)
			require.NoError(t, err)
			assert.Equal(t, "/opt/pods", k.Manifests)
		})
	}
}

func TestKubeletThatStartsNoStaticPodWithoutTheAPIServerIsRefusedWithTheReason(t *testing.T) {
	for want, change := range map[string]func(fakeHost){
		"no process of this host is a kubelet": func(h fakeHost) { require.NoError(h.t, os.RemoveAll(filepath.Join(h.proc, "812"))) },
		"started by rke2":                      func(h fakeHost) { h.kubelet("77", "--config=/var/lib/kubelet/config.yaml") },
		"set staticPodPath":                    func(h fakeHost) { h.file("/var/lib/kubelet/config.yaml", "kind: KubeletConfiguration\n") },
		"read the kubelet's configuration":     func(h fakeHost) { require.NoError(h.t, os.RemoveAll(filepath.Join(h.root, "var/lib/kubelet"))) },
		"make /etc/kubernetes/manifests": func(h fakeHost) {
			require.NoError(h.t, os.RemoveAll(filepath.Join(h.root, "etc/kubernetes/manifests")))
		},
		"and no directory": func(h fakeHost) {
			h.file("/opt/one.yaml", "")
			h.file("/var/lib/kubelet/config.yaml", "staticPodPath: /opt/one.yaml\n")
		},
		"has no --kubeconfig": func(h fakeHost) { h.kubelet("1", "--config=/var/lib/kubelet/config.yaml") },
		"names no server":     func(h fakeHost) { h.file("/etc/kubernetes/kubelet.conf", "apiVersion: v1\nkind: Config\n") },
	} {
		t.Run(want, func(t *testing.T) {
			h := newHost(t, t.TempDir())
			change(h)
			_, err := FindKubelet(h.proc, h.root)
			require.ErrorContains(t, err, want)
		})
	}
}

// A kubelet in a container, and a process of any user with that name, do not tell where the host's kubelet takes its pods from.
func TestProcessThatOnlyHasTheNameOfTheKubeletIsNotBelieved(t *testing.T) {
	for name, other := range map[string]string{
		"in a container": "101 (kubelet) S 77 101 101 0 -1",
		"of a user":      "101 (kubelet) S 1 101 101 0 -1",
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, t.TempDir())
			require.NoError(t, os.MkdirAll(filepath.Join(h.root, "tmp/mine"), 0o700))
			write(t, filepath.Join(h.proc, "101/comm"), "kubelet\n")
			write(t, filepath.Join(h.proc, "101/stat"), other)
			write(t, filepath.Join(h.proc, "101/status"), "Name:\tkubelet\nUid:\t1000\t0\t0\t0\n")
			write(t, filepath.Join(h.proc, "101/cmdline"),
				"kubelet\x00--pod-manifest-path=/tmp/mine\x00--kubeconfig=/etc/kubernetes/kubelet.conf\x00")
			k, err := FindKubelet(h.proc, h.root)
			require.NoError(t, err)
			assert.Equal(t, "/etc/kubernetes/manifests", k.Manifests)

			require.NoError(t, os.RemoveAll(filepath.Join(h.proc, "812")))
			_, err = FindKubelet(h.proc, h.root)
			require.Error(t, err)
		})
	}
}

func TestHostLinksStayInside(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, os.Symlink("../../../../etc", filepath.Join(root, "up")))
	require.NoError(t, os.Symlink("loop", filepath.Join(root, "loop")))
	at, err := within(root, "/up/passwd")
	require.NoError(t, err)
	assert.Equal(t, filepath.Join(root, "etc/passwd"), at)
	_, err = within(root, "/loop/x")
	require.ErrorContains(t, err, "too many symbolic links")
}
