package realnode

import (
	"context"
	"fmt"
	"strings"
)

// writeTime is how many seconds a write takes that a check disturbs: longer than what it does meanwhile, on a busy machine too.
const writeTime = 60

// updated updates a device by the installation as it is shipped.
func updated(ctx context.Context, s *scene) (string, error) {
	w := toolTarget(disk, "1.1.0", 20)
	before, err := s.node.flash(ctx, w.key)
	if err != nil {
		return "", err
	}
	if err := s.Declare(ctx, w.Target); err != nil {
		return "", err
	}
	pid, err := s.writing(ctx)
	if err != nil {
		return "", err
	}
	group, err := s.node.agent.Read(ctx, fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return "", err
	}
	if !strings.HasPrefix(group, "0::/system.slice/firmware-write-") || !strings.HasSuffix(group, ".scope") {
		return "", fmt.Errorf("the write is not in a scope of the host's systemd: %s", group)
	}
	return fmt.Sprintf("%s to %s in %s", before.Running, w.Version, strings.TrimPrefix(group, "0::")), s.completed(ctx, w, writes{1, 1}, before)
}
