package maintenance

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// What medik8s is told follows from the objects, so that an operator that was killed, or was down while the job ended, makes good for it.
func TestAgreement(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	held := func(who string, ago time.Duration) *lease {
		at := metav1.NewMicroTime(now.Add(-ago))
		return &lease{now: now, object: &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: "medik8s-leases", Name: "node-n1"},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: &who, RenewTime: &at, LeaseDurationSeconds: ptr.To(int32(3600))},
		}}
	}
	free, refused := &lease{now: now}, &lease{now: now, refused: "leases is forbidden"}
	wanted := &v1alpha1.MaintenanceRequest{ID: "1", Type: v1alpha1.MaintenanceDrain}
	over := &v1alpha1.MaintenanceRequest{ID: "1", Type: v1alpha1.MaintenanceRelease}
	const draining, drained, released = v1alpha1.MaintenanceDraining, v1alpha1.MaintenanceDrained, v1alpha1.MaintenanceReleased
	ours := holder
	for name, c := range map[string]struct {
		lease    *lease
		request  *v1alpha1.MaintenanceRequest
		answer   v1alpha1.MaintenanceState
		ended    bool
		label    string
		marked   bool
		sign     bool
		want     string
		answered string
	}{
		"where medik8s is not installed nothing is said":     {request: wanted, want: "cordon"},
		"a label goes where Leases are not wanted any more":  {request: over, answer: released, marked: true, label: "true", want: "include"},
		"in the middle of a job too":                         {request: wanted, answer: drained, marked: true, label: "true", want: "include"},
		"a Lease is taken with the cordon":                   {lease: free, request: wanted, want: "take exclude cordon"},
		"one that somebody let run out too":                  {lease: held("node-maintenance", 61*time.Minute), request: wanted, want: "take exclude cordon"},
		"a killed operator's own is no obstacle":             {lease: held(ours, time.Minute), request: wanted, want: "exclude cordon"},
		"a node that somebody else has is not taken":         {lease: held("NodeHealthCheck-gpu", time.Minute), request: wanted, answered: "Somebody else has node n1: NodeHealthCheck-gpu (Lease medik8s-leases/node-n1, until 2026-11-23T12:59:00Z). Nothing is done to it until that ends."},
		"nor by a clock that is ahead":                       {lease: held("NodeHealthCheck-gpu", -time.Minute), request: wanted, answered: "Somebody else has node n1: NodeHealthCheck-gpu (Lease medik8s-leases/node-n1, until 2026-11-23T13:01:00Z). Nothing is done to it until that ends."},
		"nor without the right to the Lease":                 {lease: refused, request: wanted, answered: "The Lease by which medik8s agrees on node n1 cannot be taken: leases is forbidden. Nothing is done to the node. Give the operator the right to it, or unset --medik8s-lease-namespace."},
		"nor without a job, and what was taken goes":         {lease: held(ours, time.Minute), request: wanted, ended: true, marked: true, label: "true", want: "include back"},
		"somebody's label stays theirs":                      {lease: free, request: wanted, label: "false", want: "take cordon"},
		"a young Lease is left alone":                        {lease: held(ours, 19*time.Minute), request: wanted, answer: drained, marked: true, label: "true", want: ""},
		"an older one is renewed":                            {lease: held(ours, 21*time.Minute), request: wanted, answer: drained, marked: true, label: "true", want: "take"},
		"one that ran out while the operator was down too":   {lease: free, request: wanted, answer: drained, marked: true, label: "true", want: "take"},
		"unless somebody took it meanwhile":                  {lease: held("node-maintenance", time.Minute), request: wanted, answer: drained, marked: true, label: "true", want: ""},
		"a label that somebody removed stays away":           {lease: held(ours, time.Minute), request: wanted, answer: drained, marked: true, want: ""},
		"also while pods are evicted":                        {lease: held(ours, 21*time.Minute), request: wanted, answer: draining, marked: true, label: "true", want: "take"},
		"at the end both go":                                 {lease: held(ours, time.Minute), request: over, answer: drained, marked: true, label: "true", want: "include back"},
		"and somebody's label stays then":                    {lease: held(ours, time.Minute), request: over, answer: drained, label: "true", want: "back"},
		"though that was said already":                       {lease: held(ours, time.Minute), request: over, answer: released, marked: true, label: "true", want: "include back"},
		"while a sign keeps the node both stay":              {lease: held(ours, 19*time.Minute), request: over, answer: drained, marked: true, label: "true", sign: true, want: ""},
		"and the Lease is renewed":                           {lease: held(ours, 21*time.Minute), request: over, answer: drained, marked: true, label: "true", sign: true, want: "take"},
		"while somebody's Lease keeps it the label stays":    {lease: held("node-maintenance", time.Minute), request: over, answer: drained, marked: true, label: "true", want: ""},
		"somebody's Lease and label stay":                    {lease: held("node-maintenance", time.Minute), request: over, answer: drained, label: "true", want: ""},
		"a job that ended without a word leaves nothing":     {lease: held(ours, time.Minute), request: wanted, answer: drained, ended: true, marked: true, label: "true", want: "include back"},
		"a lost right keeps no node out of service for ever": {lease: refused, request: over, answer: drained, marked: true, label: "true", want: "include"},
	} {
		t.Run(name, func(t *testing.T) {
			n := node(c.answer == drained || c.answer == draining, "")
			n.Labels = map[string]string{}
			if c.label != "" {
				n.Labels[excludeLabel] = c.label
			}
			if c.marked {
				metav1.SetMetaDataAnnotation(&n.ObjectMeta, v1alpha1.ExcludedAnnotation, "1")
			}
			if metav1.SetMetaDataAnnotation(&n.ObjectMeta, v1alpha1.CordonedAnnotation, "1"); c.sign {
				n = drainedBy(n, "medik8s.io/drain")
			}
			f := facts{request: c.request, node: n, admitted: !c.ended, lease: c.lease}
			if c.answer != "" {
				f.answer = answer("1", c.answer)
			}
			d := decide(f)
			got := ""
			for _, part := range []struct {
				is   bool
				word string
			}{{d.take, " take"}, {d.exclude, " exclude"}, {d.cordon != "", " cordon"}, {d.include, " include"}, {d.giveBack, " back"}} {
				if part.is {
					got += part.word
				}
			}
			if c.want != "" {
				c.want = " " + c.want
			}
			assert.Equal(t, c.want, got)
			if c.answered != "" && assert.NotNil(t, d.answer) {
				assert.Equal(t, v1alpha1.MaintenanceRefused, d.answer.State)
				assert.Equal(t, c.answered, d.answer.Message)
			}
		})
	}
}
