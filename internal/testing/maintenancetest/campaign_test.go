package maintenancetest_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/internal/maintenance"
	"github.com/nodefirmware/node-firmware-operator/internal/neighbour"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// jobs is how many jobs a campaign has, each by a seed of its own.
const jobs = 8

// campaign is one job after the other on a Node that others cordon, uncordon, taint and annotate as they like. Whose the cordon is that is there, it
// knows from having seen it made, and not from the API server as the product does.
type campaign struct {
	*scene
	random *rand.Rand
	// theirs says that a person made the cordon that is there.
	theirs bool
	// said is what happened in this job, and wrong what must not have, in any.
	said, wrong []string
}

// run has the jobs and returns what must not have happened.
func run(t *testing.T, w World) []string {
	c := &campaign{scene: newScene(t, w)}
	for seed := range uint64(jobs) {
		c.random, c.said = rand.New(rand.NewPCG(seed, 0)), nil
		c.job()
		c.cordon(false)
		c.theirs = false
	}
	return c.wrong
}

// job takes the node out of service, if others let it, and returns it.
func (c *campaign) job() {
	if c.Was != nil {
		*c.Was = maintenance.Cordon{}
	}
	state := c.wait(25, c.window.Schedule, step.MaintenanceReady)
	if c.Was != nil {
		*c.Was = state.Cordon
	}
	c.wait(c.random.IntN(6), func(context.Context) error { return nil }, step.MaintenanceBroken)
	state = c.wait(10, c.window.Release, step.MaintenanceNone)
	c.sign(false)
	c.annotate(false)
	c.said = append(c.said, "the others are done")
	for range 30 {
		if state.Phase == step.MaintenanceNone {
			break
		}
		c.product(c.window.Release)
		c.product(c.Step)
		state = c.state()
	}
	c.product(c.Step)
	switch {
	case state.Phase != step.MaintenanceNone:
		c.blame("the job does not end: " + state.Message)
	case c.node().Spec.Unschedulable && !c.theirs:
		c.blame(fmt.Sprintf("the product's cordon outlived its job (%s)", state.Message))
	}
}

// wait asks for something and lets the others act, until the phase is there or so many rounds are over.
func (c *campaign) wait(rounds int, ask func(context.Context) error, phase step.Maintenance) maintenance.State {
	for range rounds {
		c.act(c.state().Phase)
		c.product(ask)
		c.product(c.Step)
		if state := c.state(); state.Phase == phase {
			return state
		}
	}
	return c.state()
}

// act is something that others do, or that a process ends. What they do to a cordon while the maintenance-operator is about to change it
// nobody could tell apart.
func (c *campaign) act(phase step.Maintenance) {
	at := []string{"sign", "unsign", "annotate", "unannotate", "restart", "", "", ""}
	switch {
	case phase == step.MaintenanceEnding && c.Was != nil:
		return
	case phase != step.MaintenanceRequested && phase != step.MaintenanceEnding:
		at = append(at, "cordon", "uncordon")
	}
	what := at[c.random.IntN(len(at))]
	c.said = append(c.said, what)
	switch what {
	case "sign", "unsign":
		c.sign(what == "sign")
	case "annotate", "unannotate":
		c.annotate(what == "annotate")
	case "cordon":
		c.theirs = c.theirs || !c.node().Spec.Unschedulable
		c.cordon(true)
	case "uncordon":
		c.theirs = false
		c.cordon(false)
	case "restart":
		c.restart()
	}
}

func (c *campaign) annotate(is bool) {
	c.change(func(n *corev1.Node) {
		delete(n.Annotations, annotation)
		if is {
			metav1.SetMetaDataAnnotation(&n.ObjectMeta, annotation, "now")
		}
	})
}

const annotation = "weave.works/kured-reboot-in-progress"

// product lets the product do something, and judges what becomes of the Node.
func (c *campaign) product(do func(context.Context) error) {
	c.Helper()
	before := c.node()
	require.NoError(c, do(c.Context()))
	c.endPods(c.Context())
	switch was, is := before.Spec.Unschedulable, c.node().Spec.Unschedulable; {
	case was && !is && c.theirs:
		c.blame("a person's cordon was taken away")
	case was && !is && neighbour.Has(before) != "":
		c.blame("the node was returned under the hands of who has it")
	}
}

func (c *campaign) blame(what string) {
	c.wrong = append(c.wrong, fmt.Sprintf("%s after %s", what, strings.Join(c.said, ", ")))
}

// Who has the node still has it, and the cordon of the product never outlives its job.
func TestOthersKeepWhatIsTheirs(t *testing.T) {
	for name, world := range map[string]func(*testing.T, sight) World{"maintenance-operator": operating, "own drain": drainingBy} {
		t.Run(name, func(t *testing.T) { assert.Empty(t, run(t, world(t, seeing))) })
	}
}

// TestCampaignOfOthersNoticesSabotage: a product that sees no sign returns a node under the hands of others, and a daemon that does not wait for
// them leaves its cordon. With the operator's own drain it is the operator that waits.
func TestCampaignOfOthersNoticesSabotage(t *testing.T) {
	for name, world := range map[string]func(*testing.T, sight) World{"maintenance-operator": operating, "own drain": drainingBy} {
		t.Run(name+", blind", func(t *testing.T) {
			assert.Contains(t, strings.Join(run(t, world(t, blind)), "\n"), "returned under the hands of who has it")
		})
	}
	t.Run("maintenance-operator, hasty", func(t *testing.T) {
		w := operating(t, seeing)
		window := w.Window
		w.Window = func() maintenance.Window { return hasty{window()} }
		assert.Contains(t, strings.Join(run(t, w), "\n"), "the product's cordon outlived its job")
	})
}

// sight is what the product sees of a Node.
type sight func(client.Client) client.Client

func seeing(c client.Client) client.Client { return c }
func blind(c client.Client) client.Client  { return blinded{c} }

type blinded struct{ client.Client }

func (b blinded) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	err := b.Client.Get(ctx, key, o, opts...)
	if n, is := o.(*corev1.Node); is {
		n.Spec.Taints = nil
		delete(n.Annotations, annotation)
	}
	return err
}

// hasty takes a maintenance for over that waits for others.
type hasty struct{ maintenance.Window }

func (h hasty) State(ctx context.Context) (maintenance.State, error) {
	s, err := h.Window.State(ctx)
	if strings.Contains(s.Message, "has the node too") {
		s.Phase = step.MaintenanceNone
	}
	return s, err
}

// operating is a world in which the stand-in of the maintenance-operator works.
func operating(t *testing.T, sees sight) World { return standing(t, apitest.New(t), sees) }
