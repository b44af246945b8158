package kubectl

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/desired"
	"github.com/nodefirmware/node-firmware-operator/internal/explain"
	"github.com/nodefirmware/node-firmware-operator/internal/wayout"
)

func (s *session) releaseCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "release NODE",
		Short: "Return a node that a failed job holds to service as it is",
		Long: "Return a node that a failed job holds to service as it is. Nobody has judged its firmware then: look at the node first. What failed stays recorded, " +
			"and is tried again only after a retry.",
		Example:           "  kubectl firmware release gpu-017 -m 'card removed'",
		Args:              wantOne("kubectl firmware release gpu-017"),
		ValidArgsFunction: s.completeNames("NodeFirmware"),
	}
	w := writingOf(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		return s.onNode(c.Context(), w, args[0], (*nodeFacts).release)
	}
	return c
}

// onNode makes a request of one node.
func (s *session) onNode(ctx context.Context, w *writing, name string, decide func(*nodeFacts, person) (*write, error)) error {
	api, by, err := s.begin(ctx, w)
	if err != nil {
		return err
	}
	return s.do(ctx, w, by, []decision{func(ctx context.Context) (*write, error) {
		f, err := gatherNode(ctx, api, name)
		if err != nil {
			return nil, err
		}
		return decide(f, by)
	}})
}

// release decides a release, which is of the hold that the node reports.
func (f *nodeFacts) release(by person) (*write, error) {
	n := f.node
	switch j := f.next(); {
	case n.Status.HeldBy == "" && j != nil && f.tookOver(j):
		return nil, fmt.Errorf("node/%s is not held now: job %s has taken it over, returns it by itself if it succeeds, and holds it again if it fails or is cancelled. "+
			"A release that is requested now would do nothing. To see how far it is: kubectl firmware wait %[2]s", n.Name, j.Name)
	case n.Status.HeldBy == "" && j != nil && j.Admitted():
		return nil, fmt.Errorf("node/%s is not held: job %s runs, and returns it by itself. A release that is requested now would do nothing. To end the job: kubectl firmware cancel %[2]s",
			n.Name, j.Name)
	case n.Status.HeldBy == "":
		return nil, fmt.Errorf("node/%s is not held: no failed job keeps it out of service. Where its Node is cordoned all the same, somebody else did that: kubectl uncordon %[1]s", n.Name)
	case desired.Release(n).Clears(&n.Status.Requests.Release):
		return nil, fmt.Errorf("node/%s is to be released already (%s), and its daemon has not answered yet.%s To see more: kubectl firmware why %[1]s",
			n.Name, n.Spec.Requests.Release, silent(n))
	}
	said, _ := wayout.Ways(explain.Deciding(n.Status.Conditions).Message)
	will := fmt.Sprintf("Node %s returns to service as it is, and nobody has judged its firmware: %s What failed stays recorded until a retry.%s", n.Name, said, silent(n))
	changed := copyOf(n)
	changed.Spec.Requests.Release = by.request()
	return &write{old: n, changed: changed, will: will, did: "release requested", action: "Release", reason: v1alpha1.ReasonReleased}, nil
}
