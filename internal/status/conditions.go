package status

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

// Condition is what a kind's mapping decides about one condition type.
type Condition struct {
	Type    string
	Status  metav1.ConditionStatus
	Reason  string
	Message string
}

// maxMessage bounds the messages this package writes; the API allows 32768 characters.
const maxMessage = 1024

// Merge brings conditions up to date: each condition of want is set, with its transition time kept where its status
// did not change; each type of owned that want does not mention is removed; all others stay as they are. The result is
// in order of type and shares nothing with old.
func Merge(old []metav1.Condition, generation int64, now time.Time, owned []string, want ...Condition) []metav1.Condition {
	out := make([]metav1.Condition, 0, len(old)+len(want))
	for _, c := range old {
		mentioned := slices.ContainsFunc(want, func(w Condition) bool { return w.Type == c.Type })
		if !mentioned && !slices.Contains(owned, c.Type) {
			out = append(out, c)
		}
	}
	for _, w := range want {
		c := metav1.Condition{
			Type: w.Type, Status: w.Status, Reason: w.Reason, Message: text.Clip(w.Message, maxMessage),
			ObservedGeneration: generation, LastTransitionTime: metav1.NewTime(now.Truncate(time.Second)),
		}
		for _, o := range old {
			if o.Type == w.Type && o.Status == w.Status {
				c.LastTransitionTime = o.LastTransitionTime
			}
		}
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b metav1.Condition) int { return strings.Compare(a.Type, b.Type) })
	return out
}
