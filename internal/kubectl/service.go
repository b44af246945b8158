package kubectl

import (
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/wayout"
)

func (s *session) outOfServiceCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "out-of-service NODE",
		Short: "Drain a node for whoever gets it next, and run the steps of its CleaningPolicy",
		Long: "Drain a node for whoever gets it next, and run the steps of the CleaningPolicy that selects it. It gets no new work until it returns with " +
			"kubectl firmware in-service.",
		Example:           "  kubectl firmware out-of-service gpu-017 -m 'goes to team blue'",
		Args:              wantOne("kubectl firmware out-of-service gpu-017"),
		ValidArgsFunction: s.completeNames("NodeFirmware"),
	}
	w := writingOf(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		return s.onNode(c.Context(), w, args[0], (*nodeFacts).outOfService)
	}
	return c
}

func (s *session) inServiceCommand() *cobra.Command {
	c := &cobra.Command{
		Use:               "in-service NODE",
		Short:             "Return a node that is out of service",
		Long:              "Return a node that is out of service. Where its steps did not succeed it returns as it is, and the question says so.",
		Example:           "  kubectl firmware in-service gpu-017",
		Args:              wantOne("kubectl firmware in-service gpu-017"),
		ValidArgsFunction: s.completeNames("NodeFirmware"),
	}
	w := writingOf(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		return s.onNode(c.Context(), w, args[0], (*nodeFacts).inService)
	}
	return c
}

func (f *nodeFacts) outOfService(person) (*write, error) {
	n := f.node
	if n.Spec.Service == v1alpha1.NodeOutOfService {
		return nil, fmt.Errorf("node/%s is out of service already. To see how far it is: kubectl firmware why %[1]s", n.Name)
	}
	changed := copyOf(n)
	changed.Spec.Service = v1alpha1.NodeOutOfService
	return &write{old: n, changed: changed, did: "out of service", action: "TakeOut", reason: v1alpha1.ReasonPending, will: fmt.Sprintf(
		"Node %s gets no new work, and is drained when the job with the steps of its CleaningPolicy begins. It stays out until it is returned.%s", n.Name, silent(n))}, nil
}

func (f *nodeFacts) inService(by person) (*write, error) {
	n := f.node
	clean := meta.FindStatusCondition(n.Status.Conditions, v1alpha1.ConditionClean)
	switch {
	case n.Spec.Service != v1alpha1.NodeOutOfService:
		return nil, fmt.Errorf("node/%s is in service. Where no work is scheduled on it all the same, another taint or a cordon keeps it off: kubectl describe node %[1]s", n.Name)
	case clean != nil && clean.Status == metav1.ConditionFalse && clean.Reason == v1alpha1.ReasonProgressing:
		return nil, fmt.Errorf("node/%s cannot return while its steps run. %s To see how far they are: kubectl firmware wait %[1]s", n.Name, clean.Message)
	}
	changed := copyOf(n)
	changed.Spec.Service = v1alpha1.NodeInService
	will := fmt.Sprintf("Node %s gets work again.", n.Name)
	if clean != nil && clean.Status != metav1.ConditionTrue {
		said, _ := wayout.Ways(clean.Message)
		will = fmt.Sprintf("Node %s gets work again as it is, and is not clean: %s", n.Name, said)
		changed.Spec.Requests.Release = by.request()
	}
	return &write{old: n, changed: changed, will: will, did: "in service", action: "Return", reason: v1alpha1.ReasonReleased}, nil
}
