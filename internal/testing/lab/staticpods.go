package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/child"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/lab/cluster"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/simhost"
)

// staticPodPath is where the kubelet of a simulated machine takes static pods from.
const staticPodPath = "/etc/kubernetes/manifests"

// configureKubelet writes what a kubelet is configured with: its static pods, and the API server.
func configureKubelet(root, server string) error {
	files := map[string]string{
		simhost.KubeletConfig: "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nstaticPodPath: " + staticPodPath + "\n",
		simhost.KubeletKubeconfig: "apiVersion: v1\nkind: Config\ncurrent-context: default\n" +
			"clusters:\n- name: default\n  cluster: {server: \"" + server + "\"}\n" +
			"contexts:\n- name: default\n  context: {cluster: default, user: default}\n",
	}
	errs := []error{os.MkdirAll(filepath.Join(root, staticPodPath), 0o755)}
	for path, content := range files {
		path = filepath.Join(root, path)
		errs = append(errs, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o600))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("configure kubelet: %w", err)
	}
	return nil
}

// staticPods is the part of a machine's kubelet that needs no API server: it runs what is in the directory of static pods, and ends
// what is not there any more.
type staticPods struct {
	root string
	// run starts the program of a pod with its arguments.
	run func(pod *corev1.Pod) (*child.Process, error)

	mu   sync.Mutex
	off  bool
	runs map[string]*staticPod
	// refused and started are the manifests that were refused, with the reason, and how many pods were started, since the lab began.
	refused []string
	started int
}

type staticPod struct {
	content []byte
	// process is nil for a pod that is refused.
	process *child.Process
}

// sync looks at the directory once.
func (s *staticPods) sync() (complaints []error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.off {
		return nil
	}
	files, _ := filepath.Glob(filepath.Join(s.root, staticPodPath, "[^.]*"))
	there := map[string]bool{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			continue // it was removed
		}
		there[file] = true
		old := s.runs[file]
		if old != nil && bytes.Equal(old.content, content) && (old.process == nil || old.process.Running()) {
			continue
		}
		if old != nil && old.process != nil {
			old.process.Stop(stopGrace)
		}
		next := &staticPod{content: content}
		pod, err := decodeStaticPod(content)
		if err == nil {
			next.process, err = s.run(pod)
			s.started++
		}
		if err != nil {
			s.refused = append(s.refused, filepath.Base(file)+": "+err.Error())
			complaints = append(complaints, err)
		}
		s.runs[file] = next
	}
	for file, p := range s.runs {
		if !there[file] {
			if p.process != nil {
				p.process.Stop(stopGrace)
			}
			delete(s.runs, file)
		}
	}
	return complaints
}

// end ends every pod, and starts none before boot.
func (s *staticPods) end(how func(*child.Process)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.off = true
	for file, p := range s.runs {
		if p.process != nil {
			how(p.process)
		}
		delete(s.runs, file)
	}
}

func (s *staticPods) boot() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.off = false
}

// seen is how many pods were started, and what was refused.
func (s *staticPods) seen() (started int, refused []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.started, s.refused
}

// decodeStaticPod reads a manifest as strictly as a kubelet, and refuses what one refuses that cannot ask the API server, and what
// would not have on a real machine what the daemon needs there (pkg/kubelet/config/common.go, podutil.HasAPIObjectReference).
func decodeStaticPod(content []byte) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	if err := yaml.UnmarshalStrict(content, pod); err != nil {
		return nil, fmt.Errorf("read static pod: %w", err)
	}
	var errs []error
	refuse := func(is bool, format string, args ...any) {
		if is {
			errs = append(errs, fmt.Errorf("refuse static pod %s: "+format, append([]any{pod.Name}, args...)...))
		}
	}
	spec := pod.Spec
	refuse(pod.APIVersion != "v1" || pod.Kind != "Pod" || pod.Name == "", "it is no pod with a name")
	refuse(spec.ServiceAccountName != "", "it refers to a service account")
	refuse(spec.NodeSelector != nil || spec.Affinity != nil, "it selects labels, which a kubelet without the API server does not know")
	refuse(len(spec.ImagePullSecrets) > 0, "it refers to a secret")
	refuse(len(spec.Containers) != 1 || len(spec.InitContainers) > 0, "it has not one container")
	refuse(!spec.HostPID || !spec.HostNetwork, "it does not share the processes and the network of the host")
	volumes := map[string]bool{}
	for _, v := range spec.Volumes {
		volumes[v.Name] = true
		refuse(v.HostPath == nil && v.EmptyDir == nil, "its volume %s comes from the API server", v.Name)
	}
	for _, c := range spec.Containers {
		refuse(c.Image == "" || c.ImagePullPolicy == corev1.PullAlways, "its image %q is not on the node", c.Image)
		refuse(c.SecurityContext == nil || !ptr.Deref(c.SecurityContext.Privileged, false), "it is not privileged")
		refuse(c.LivenessProbe != nil || c.ReadinessProbe != nil, "it listens where the daemon does")
		for _, m := range c.VolumeMounts {
			refuse(!volumes[m.Name], "it mounts %s, which is no volume", m.Name)
		}
		for _, e := range c.Env {
			refuse(e.ValueFrom != nil && e.ValueFrom.FieldRef == nil, "its variable %s comes from the API server", e.Name)
		}
	}
	return pod, errors.Join(errs...)
}

// runStaticPods acts as the machine's kubelet for static pods until the context ends. It does not ask the API server.
func (n *Node) runStaticPods(ctx context.Context, complain func(format string, args ...any)) {
	wait.UntilWithContext(ctx, func(context.Context) {
		if n.goesDown() {
			return
		}
		for _, err := range n.static.sync() {
			complain("static pods of %s: %v", n.Name, err)
		}
	}, podPoll)
}

// startStaticPod starts the program of a static pod.
func (n *Node) startStaticPod(pod *corev1.Pod) (*child.Process, error) {
	pod.Name += "-" + n.Name // as a kubelet names it
	pod.Spec.NodeName = n.Name
	args := append(cluster.Args(pod), n.local...)
	return child.Start("static pod "+pod.Name, n.logPath, n.daemonBinary, args...)
}
