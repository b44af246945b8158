package realnode

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/lab/cluster"
)

const (
	// mostAtRest bounds the memory of a daemon that has nothing to do, in bytes.
	mostAtRest = 40 << 20
	// settled is how long after its start, by the machine's own clock, a daemon is at rest.
	settled = 30 * time.Second
)

// stats is the part of the kubelet's summary (k8s.io/kubelet/pkg/apis/stats/v1alpha1) that this reads.
type stats struct {
	Pods []struct {
		PodRef     struct{ Name, Namespace string }
		Containers []struct {
			Name      string
			StartTime time.Time
			Memory    struct {
				Time            time.Time
				WorkingSetBytes int64
			}
		}
	}
}

// atRest requires that the daemon's process has less memory resident than the bound, and that its container takes less than it requests:
// the scheduler reserves that, and the kubelet evicts first who takes more. The second figure is the kubelet's own. It counts files that
// the kernel still keeps, such as programs that ran, which are given up when memory is short.
func atRest(ctx context.Context, s *scene) (string, error) {
	daemon, err := s.daemon(ctx, "")
	if err != nil {
		return "", err
	}
	resources := daemon.Spec.Containers[0].Resources
	requested, limit := resources.Requests[corev1.ResourceMemory], resources.Limits[corev1.ResourceMemory]
	detail := ""
	err = s.Until(ctx, "the daemon is at rest", func(ctx context.Context) (bool, error) {
		set, err := s.workingSet(ctx, daemon.Name)
		if err != nil {
			return false, err
		}
		resident, err := s.resident(ctx)
		if err != nil {
			return false, err
		}
		detail = fmt.Sprintf("%.0f MiB are resident, the container takes %.0f MiB; it requests %s and may take %s", mebibytes(resident), mebibytes(set),
			requested.String(), limit.String())
		if resident >= mostAtRest || set >= requested.Value() {
			return false, errors.New(detail)
		}
		return true, nil
	})
	return detail, err
}

// workingSet is what the kubelet says that the pod's container takes, in bytes, once that has run for a while.
func (s *scene) workingSet(ctx context.Context, pod string) (int64, error) {
	raw, err := s.kubectl.run(ctx, "get", "--raw", "/api/v1/nodes/"+nodeName+"/proxy/stats/summary")
	if err != nil {
		return 0, err
	}
	var all stats
	if err := decode(raw, &all); err != nil {
		return 0, err
	}
	for _, p := range all.Pods {
		if p.PodRef.Namespace != cluster.Namespace || p.PodRef.Name != pod || len(p.Containers) != 1 {
			continue
		}
		if c := p.Containers[0]; c.Memory.Time.Sub(c.StartTime) >= settled {
			return c.Memory.WorkingSetBytes, nil
		}
	}
	return 0, errors.New("the kubelet reports no figure of the container, or it has just started")
}

// resident is the memory of the daemon's process, in bytes.
func (s *scene) resident(ctx context.Context) (int64, error) {
	pid, err := s.daemonProcess(ctx)
	if err != nil {
		return 0, err
	}
	status, err := s.node.agent.Read(ctx, "/proc/"+pid+"/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(status) {
		kibibytes := int64(0)
		if n, _ := fmt.Sscanf(line, "VmRSS: %d kB", &kibibytes); n == 1 {
			return kibibytes << 10, nil
		}
	}
	return 0, fmt.Errorf("/proc/%s/status has no VmRSS", pid)
}

func mebibytes(n int64) float64 { return float64(n) / (1 << 20) }
