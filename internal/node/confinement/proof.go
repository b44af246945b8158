package confinement

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	mo "github.com/Mellanox/maintenance-operator/api/v1alpha1"
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// ErrUnconfined says that the API server would let the daemon write objects of other nodes.
var ErrUnconfined = errors.New("nothing confines this daemon to its node")

const (
	// stranger is a node that is not this one. It need not exist.
	stranger = "another-node.confinement-proof.nodefirmware.io"
	// attemptTimeout bounds one write of the proof.
	attemptTimeout = 10 * time.Second
	// retry is the wait between two proofs.
	retry = 2 * time.Second
	// settle is how long the API server may take to enforce policies that were just applied.
	settle = 30 * time.Second
	// remind is how often a proof that cannot be made is logged.
	remind = 5 * time.Minute
)

// write is a write that no daemon but that of the stranger may make. It is always sent as a dry run.
type write struct {
	what   string
	object client.Object
	// optional is a kind that a cluster may not have.
	optional bool
}

// proof makes the writes and judges the answers.
type proof struct {
	client client.Client
	node   string
	writes []write
}

func newProof(access *rest.Config, node, namespace string) (*proof, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(v1alpha1.AddToScheme(scheme), mo.AddToScheme(scheme), eventsv1.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("register kinds: %w", err)
	}
	mapper := meta.NewDefaultRESTMapper(nil) // discovery would read all kinds of the cluster for three of them
	mapper.Add(v1alpha1.GroupVersion.WithKind("NodeDevice"), meta.RESTScopeRoot)
	mapper.Add(mo.GroupVersion.WithKind("NodeMaintenance"), meta.RESTScopeNamespace)
	mapper.Add(eventsv1.SchemeGroupVersion.WithKind("Event"), meta.RESTScopeNamespace)
	c, err := client.New(access, client.Options{Scheme: scheme, Mapper: mapper})
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	return &proof{client: c, node: node, writes: []write{
		{what: "create a NodeDevice of another node", object: &v1alpha1.NodeDevice{
			ObjectMeta: metav1.ObjectMeta{Name: stranger + "-bios"}, Spec: v1alpha1.NodeDeviceSpec{NodeName: stranger},
		}},
		{what: "report an event of another node", object: &eventsv1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "confinement-proof"},
			EventTime:  metav1.NowMicro(), Type: "Normal", Reason: "ConfinementProof", Action: "Prove", Note: "This event must be refused.",
			ReportingController: v1alpha1.FieldOwnerDaemon, ReportingInstance: v1alpha1.FieldOwnerDaemon,
			Regarding: corev1.ObjectReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: "NodeFirmware", Name: stranger},
		}},
		{what: "request maintenance of another node", optional: true, object: &mo.NodeMaintenance{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "node-firmware-" + stranger},
			Spec:       mo.NodeMaintenanceSpec{RequestorID: v1alpha1.MaintenanceRequestorID, NodeName: stranger, Cordon: true},
		}},
	}}, nil
}

// await returns nil when the proof has succeeded or the context has ended.
func (p *proof) await(ctx context.Context, log logr.Logger) error {
	var unconfined, reminded time.Time
	for {
		err := p.attempt(ctx)
		if !errors.Is(err, ErrUnconfined) {
			unconfined = time.Time{}
		} else if unconfined.IsZero() {
			unconfined = time.Now()
		}
		switch {
		case err == nil || ctx.Err() != nil:
			return nil
		case !unconfined.IsZero() && time.Since(unconfined) >= settle:
			return err
		case time.Since(reminded) >= remind:
			reminded = time.Now()
			log.Info("Waiting for the API server to confine this daemon to its node; nothing is written to it before", "err", err.Error())
		}
		timer := time.NewTimer(retry)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
	}
}

// attempt makes each write once. It returns nil when all were refused, an error that matches ErrUnconfined when one was not,
// and another error when the API server gave no answer to the question.
func (p *proof) attempt(ctx context.Context) error {
	for _, w := range p.writes {
		limited, cancel := context.WithTimeout(ctx, attemptTimeout)
		err := p.client.Create(limited, w.object.DeepCopyObject().(client.Object), client.DryRunAll)
		cancel()
		switch {
		case apierrors.IsForbidden(err), w.optional && apierrors.IsNotFound(err):
		case err == nil, apierrors.IsAlreadyExists(err):
			return fmt.Errorf("%w: the API server lets the daemon of node %s %s. The daemon does not run: every node could write the objects "+
				"of all. Apply the admission policies (kubectl apply -k deploy/kustomize/default applies them with the rest), check that the "+
				"paramRef of each ValidatingAdmissionPolicyBinding names the service account of this pod, and delete the pod; or start the "+
				"daemon with --allow-unconfined", ErrUnconfined, p.node, w.what)
		default:
			return fmt.Errorf("%s, which must be refused: %w", w.what, err)
		}
	}
	return nil
}

// errUnproven is the error of a write that was not sent.
var errUnproven = errors.New("the daemon writes nothing before the API server has proven to confine it to its node; it tries again")

// Gate is an access to the API server that sends no write until the proof has succeeded. Reads pass.
type Gate struct {
	// Access is for everything but the proof itself.
	Access *rest.Config
	// direct is for the proof.
	direct *rest.Config
	open   atomic.Bool
}

// NewGate returns a closed gate. It does not contact the API server.
func NewGate(access *rest.Config) *Gate {
	g := &Gate{direct: access, Access: rest.CopyConfig(access)}
	g.Access.Wrap(func(next http.RoundTripper) http.RoundTripper { return gated{g, next} })
	return g
}

type gated struct {
	gate *Gate
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (g gated) RoundTrip(req *http.Request) (*http.Response, error) {
	if !g.gate.open.Load() && req.Method != http.MethodGet && req.Method != http.MethodHead {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, errUnproven
	}
	return g.next.RoundTrip(req)
}

// WrappedRoundTripper returns the wrapped transport, so that it can be closed.
func (g gated) WrappedRoundTripper() http.RoundTripper { return g.next }

// Open opens the gate when the proof has succeeded. It retries while the API server gives no answer, and returns an error
// that matches ErrUnconfined when the API server would let the daemon of the node write objects of another one. It returns
// nil when the context ends.
func (g *Gate) Open(ctx context.Context, node, namespace string, log logr.Logger) error {
	p, err := newProof(g.direct, node, namespace)
	if err != nil {
		return err
	}
	if err := p.await(ctx, log); err != nil || ctx.Err() != nil {
		return err
	}
	g.open.Store(true)
	return nil
}

// OpenUnproven opens the gate without a proof.
func (g *Gate) OpenUnproven() { g.open.Store(true) }
