package realnode

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/lab/cluster"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm/trial"
)

// DefaultStepLimit bounds each wait of a check for one thing. A step takes seconds on an idle machine; the limit is for a busy one. No
// check measures time.
const DefaultStepLimit = 5 * time.Minute

// scene is the environment of the checks.
type scene struct {
	*trial.Node
	dir, checkout string
	operatorImage image
	daemonImage   image
	plane         *plane
	kubectl       kubectl
	origin        *origin
	node          *node
	// site is the overlay that was applied, in this variant.
	site    string
	variant variant
	// before is what was on the machine before the product was.
	before []string
}

func (s *scene) close() {
	if s.node != nil {
		s.node.stop()
	}
	if s.origin != nil {
		s.origin.close()
	}
	if s.plane != nil {
		_ = s.plane.Stop()
	}
}

// nodeReady reports whether the kubelet of a boot with another id than the given one reports that it takes pods.
func (s *scene) nodeReady(ctx context.Context, notBoot string) (bool, error) {
	var n corev1.Node
	if err := s.API.Get(ctx, client.ObjectKey{Name: nodeName}, &n); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue && n.Status.NodeInfo.BootID != notBoot, nil
		}
	}
	return false, nil
}

// pods are the product's pods with a component's label, those that are ending left out.
func (s *scene) pods(ctx context.Context, component string) ([]corev1.Pod, error) {
	var list corev1.PodList
	err := s.API.List(ctx, &list, client.InNamespace(cluster.Namespace), client.MatchingLabels{"app.kubernetes.io/component": component})
	if err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	var out []corev1.Pod
	for _, p := range list.Items {
		if p.DeletionTimestamp == nil {
			out = append(out, p)
		}
	}
	return out, nil
}

func isReady(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// daemon waits for the daemon's pod to be Ready, another one than the given one, and returns it.
func (s *scene) daemon(ctx context.Context, not string) (*corev1.Pod, error) {
	var found *corev1.Pod
	err := s.Until(ctx, "the daemon's pod is Ready", func(ctx context.Context) (bool, error) {
		list, err := s.pods(ctx, "daemon")
		if err != nil || len(list) != 1 {
			return false, err
		}
		found = &list[0]
		return isReady(found) && string(found.UID) != not, nil
	})
	return found, err
}

// explain writes what tells why a check failed into a directory, which it returns.
func (s *scene) explain(c check) string {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	dir := filepath.Join(s.dir, "failed-"+strings.ReplaceAll(c.Name, " ", "-"))
	keep := func(name, text string, err error) {
		if err != nil {
			text += "\n" + err.Error() + "\n"
		}
		_ = errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	for name, args := range map[string]string{
		"pods.txt": "get pods -A -o wide", "describe-pods.txt": "describe pods -n " + cluster.Namespace, "events.txt": "get events -A --sort-by=.lastTimestamp",
		"jobs.yaml": "get firmwarejobs -o yaml", "devices.yaml": "get nodedevices,nodefirmwares -o yaml", "node.yaml": "get nodes -o yaml",
		"sources.yaml": "get firmwaresources,firmwaretemplates -o yaml",
		"operator.log": "logs -n " + cluster.Namespace + " deployment/firmware-operator", "daemon.log": "logs -n " + cluster.Namespace + " daemonset/firmware-daemon",
		"daemon-previous.log": "logs --previous -n " + cluster.Namespace + " daemonset/firmware-daemon",
	} {
		out, err := s.kubectl.run(ctx, strings.Fields(args)...)
		keep(name, out, err)
	}
	for name, args := range map[string]string{
		"journal.txt": "journalctl --no-pager -b -n 2000", "units.txt": "systemctl list-units --no-pager --all", "processes.txt": "ps axfww -o pid,ppid,stat,cgroup,args",
	} {
		ran, err := s.node.agent.Run(ctx, strings.Fields(args)...)
		keep(name, ran.Stdout, err)
	}
	return dir
}
