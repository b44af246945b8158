package kubectl

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

func (s *session) scanCommand() *cobra.Command {
	c := &cobra.Command{
		Use:               "scan NODE",
		Short:             "Have the hardware of a node read now",
		Long:              "Have the hardware of a node read now, or as soon as nothing is written to a device. A scan changes nothing.",
		Example:           "  kubectl firmware scan gpu-017",
		Args:              wantOne("kubectl firmware scan gpu-017"),
		ValidArgsFunction: s.completeNames("NodeFirmware"),
	}
	w := writingOf(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		return s.onNode(c.Context(), w, args[0], (*nodeFacts).scan)
	}
	return c
}

func (f *nodeFacts) scan(by person) (*write, error) {
	n := f.node
	if isPending(n.Spec.Requests.Scan, n.Status.Requests.Scan) {
		return nil, fmt.Errorf("node/%s is to be scanned already (%s).%s It ends when status.requests.scan is that text", n.Name, n.Spec.Requests.Scan, silent(n))
	}
	since := ""
	if t := n.Status.LastScanTime; t != nil {
		since = fmt.Sprintf(" What is known is of %s.", stamp(t))
	}
	changed := copyOf(n)
	changed.Spec.Requests.Scan = by.request()
	return &write{old: n, changed: changed, will: fmt.Sprintf("The hardware of node %s is read now.%s%s", n.Name, since, silent(n)),
		did: "scan requested", action: "Scan", reason: v1alpha1.ReasonPending}, nil
}
