package status

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/match"
)

var assignmentTime = time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)

// R001-10, R001-17: the operator's conditions of a device name the cause and the next step, and are there only while
// they hold.
func TestAssignmentConditions(t *testing.T) {
	party := func(name string) match.Party {
		return match.Party{Kind: v1alpha1.OriginTemplate, Name: name, Rule: "nic"}
	}
	block := func(reason string) match.Decision {
		return match.Decision{Blocked: &match.Block{
			Reason: reason, By: party("gpu"), Source: "cx6", Version: "22.41.1000", Class: v1alpha1.ClassNIC, BoardID: "MT_0000000359",
		}}
	}
	tests := []struct {
		name         string
		d            match.Decision
		kind, reason string
		message      []string
	}{
		{name: "nothing to say", d: match.Decision{}},
		{
			name: "conflict names everybody",
			d: match.Decision{Conflict: []match.Party{
				party("a"), party("b"), {Kind: v1alpha1.OriginPin, Name: "node-1", Rule: "p"},
			}},
			kind: v1alpha1.ConditionConflict, reason: v1alpha1.ReasonConflict,
			message: []string{
				`rule "nic" of FirmwareTemplate "a", rule "nic" of FirmwareTemplate "b" and pin "p" of NodeFirmware "node-1"`, "narrow a selector",
			},
		},
		{
			name: "conflict of many is bounded",
			d: match.Decision{Conflict: []match.Party{
				party("a"), party("b"), party("c"), party("d"), party("e"), party("f"), party("g"),
			}},
			kind: v1alpha1.ConditionConflict, reason: v1alpha1.ReasonConflict, message: []string{`"e" and 2 more`},
		},
		{
			name: "missing source", d: block(v1alpha1.ReasonSourceNotFound),
			kind: v1alpha1.ConditionBlocked, reason: v1alpha1.ReasonSourceNotFound, message: []string{`"cx6" does not exist`, "Create it"},
		},
		{
			name: "source in preparation", d: block(v1alpha1.ReasonSourceNotReady),
			kind: v1alpha1.ConditionBlocked, reason: v1alpha1.ReasonSourceNotReady, message: []string{"kubectl describe firmwaresource cx6"},
		},
		{
			name: "wrong board", d: block(v1alpha1.ReasonImageNotFound),
			kind: v1alpha1.ConditionBlocked, reason: v1alpha1.ReasonImageNotFound,
			message: []string{"22.41.1000", "class NIC, board id MT_0000000359", `rule "nic" of FirmwareTemplate "gpu"`},
		},
		{
			name: "two images", d: block(v1alpha1.ReasonImageAmbiguous),
			kind: v1alpha1.ConditionBlocked, reason: v1alpha1.ReasonImageAmbiguous, message: []string{"different images", "boardIDs"},
		},
		{
			name: "paused before the image was there", d: block(v1alpha1.ReasonPaused),
			kind: v1alpha1.ConditionBlocked, reason: v1alpha1.ReasonPaused, message: []string{`"gpu" is paused`, "Active"},
		},
		{
			name: "invalid before the image was there", d: block(v1alpha1.ReasonInvalidSpec),
			kind: v1alpha1.ConditionBlocked, reason: v1alpha1.ReasonInvalidSpec, message: []string{"To correct it: kubectl edit fwt gpu"},
		},
		{
			name: "unreadable before the image was there", d: block(v1alpha1.ReasonReadFailed),
			kind: v1alpha1.ConditionBlocked, reason: v1alpha1.ReasonReadFailed, message: []string{"could not be read"},
		},
		{
			name: "what the plan says",
			d:    match.Decision{Blocked: &match.Block{Reason: v1alpha1.ReasonDowngradeForbidden, Message: "1 is older than the running 2"}},
			kind: v1alpha1.ConditionBlocked, reason: v1alpha1.ReasonDowngradeForbidden, message: []string{"1 is older than the running 2"},
		},
	}
	daemons := metav1.Condition{Type: v1alpha1.ConditionInspected, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSucceeded}
	stale := metav1.Condition{Type: v1alpha1.ConditionConflict, Status: metav1.ConditionTrue, Reason: "Old"}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := Assignment(tt.d, []metav1.Condition{daemons, stale}, 3, assignmentTime)
			assert.Contains(t, got, daemons, "the daemon's conditions stay")
			if tt.kind == "" {
				assert.Len(t, got, 1)
				return
			}
			assert.Len(t, got, 2)
			for _, c := range got {
				if c.Type != v1alpha1.ConditionInspected {
					assert.Equal(t, tt.kind, c.Type)
					assert.Equal(t, tt.reason, c.Reason)
					assert.Equal(t, metav1.ConditionTrue, c.Status)
					for _, m := range tt.message {
						assert.Contains(t, c.Message, m)
					}
				}
			}
		})
	}
}
