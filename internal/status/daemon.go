package status

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

// DaemonConditions are the condition types of a NodeFirmware that say whether its daemon reports. The operator writes them.
var DaemonConditions = []string{v1alpha1.ConditionDaemonReady}

// Silence is why the daemon of a node does not report.
type Silence struct {
	// Since is when it reported last; nil where it never has.
	Since *metav1.Time
	// NodeNotReady says that the Node itself does not.
	NodeNotReady bool
	// Pod of the daemon, with what keeps it from being ready; empty where there is none.
	Namespace, Pod, Trouble string
}

// Daemon brings the condition DaemonReady of a NodeFirmware up to date. A daemon that was never silent is not mentioned.
func Daemon(s *Silence, old []metav1.Condition, generation int64, now time.Time) []metav1.Condition {
	switch {
	case s != nil:
		c := s.condition()
		c.Message = text.Clip(c.Message, maxMessage)
		return Merge(old, generation, now, DaemonConditions, c)
	case meta.FindStatusCondition(old, v1alpha1.ConditionDaemonReady) != nil:
		return Merge(old, generation, now, DaemonConditions, Condition{
			v1alpha1.ConditionDaemonReady, metav1.ConditionTrue, v1alpha1.ReasonSucceeded, "The daemon of the node reports.",
		})
	}
	return Merge(old, generation, now, DaemonConditions)
}

func (s *Silence) condition() Condition {
	since := "has never reported"
	if s.Since != nil {
		since = "has not reported since " + s.Since.UTC().Format(time.RFC3339)
	}
	c := Condition{Type: v1alpha1.ConditionDaemonReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNotReporting}
	switch {
	case s.NodeNotReady:
		c.Reason = v1alpha1.ReasonNodeNotReady
		c.Message = fmt.Sprintf("The daemon %s; the Node is not Ready.", since)
	case s.Pod == "":
		c.Message = fmt.Sprintf("The daemon %s, and has no pod on the node: the nodeSelector or the tolerations of its DaemonSet leave the node out, "+
			"or there is no DaemonSet. To compare: kubectl -n %s describe daemonset", since, s.Namespace)
	default:
		c.Message = fmt.Sprintf("The daemon %s. Its pod: %s To see more: kubectl -n %s describe pod %s", since,
			text.Clip(sentence(s.Trouble), mentionedBytes), s.Namespace, s.Pod)
	}
	return c
}
