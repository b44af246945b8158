package realnode

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
)

// kubectl runs commands as a person does who administers the cluster.
type kubectl struct{ program, kubeconfig string }

// run returns what the command printed on standard output. An error has what it printed on standard error.
func (k kubectl) run(ctx context.Context, args ...string) (string, error) {
	c := exec.CommandContext(ctx, k.program, append([]string{"--kubeconfig=" + k.kubeconfig}, args...)...)
	var stdout, stderr strings.Builder
	c.Stdout, c.Stderr = &stdout, &stderr
	if err := c.Run(); err != nil {
		return stdout.String(), fmt.Errorf("run kubectl %s: %w: %s", strings.Join(args, " "), err, tail(stderr.String(), 2000))
	}
	return stdout.String(), nil
}

func decode(text string, into any) error {
	if err := json.Unmarshal([]byte(text), into); err != nil {
		return fmt.Errorf("read %q: %w", tail(text, 200), err)
	}
	return nil
}
