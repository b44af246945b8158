package daemon

import (
	"context"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

// ownEvents emits the events that the admission policy allows this node: about jobs that bear the name the operator gives the
// jobs of the node. An event about a job that a person named is emitted about the node's NodeFirmware instead.
type ownEvents struct {
	events.EventRecorder
	// reader reads from the cache.
	reader client.Reader
	node   string
}

// Eventf implements events.EventRecorder.
func (e ownEvents) Eventf(regarding, related runtime.Object, kind, reason, action, note string, args ...any) {
	if job, ok := regarding.(*v1alpha1.FirmwareJob); ok && !namedByOperator(e.node, job.Name) {
		firmware := &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: e.node}}
		// The cache may not be filled yet. Without a uid the event is kept all the same, and "kubectl describe" does not show it.
		ctx, cancel := context.WithTimeout(context.Background(), cachePatience)
		_ = e.reader.Get(ctx, client.ObjectKeyFromObject(firmware), firmware)
		cancel()
		regarding, related, note, args = firmware, job, "%s", []any{text.Clip("Firmware job "+job.Name+": "+fmt.Sprintf(note, args...), maxNote)}
	}
	e.EventRecorder.Eventf(regarding, related, kind, reason, action, note, args...)
}

const (
	// hashDigits are at the end of the name of each job the operator makes.
	hashDigits = 8
	// comparedNode is how much of the name of a node is compared: a longer one may be cut in the names of jobs.
	comparedNode = 200
	// maxNote bounds the note of an event, as the API server does; it refuses a longer one.
	maxNote = 1024
	// cachePatience is short because who emits an event does not wait.
	cachePatience = 100 * time.Millisecond
)

// namedByOperator reports what deploy/policy/daemon-events.yaml asks of the name of a job.
func namedByOperator(node, job string) bool {
	if len(node) > comparedNode {
		return strings.HasPrefix(job, node[:comparedNode])
	}
	return strings.HasPrefix(job, node+"-") && len(job) == len(node)+1+hashDigits
}
