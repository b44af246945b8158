package v1alpha1_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

func TestWavesValidation(t *testing.T) {
	size := func(s intstr.IntOrString) *intstr.IntOrString { return &s }
	waves := func(ws ...v1alpha1.RolloutWave) func(*v1alpha1.RolloutPolicy) {
		return func(p *v1alpha1.RolloutPolicy) { p.Spec.Waves = ws }
	}
	canary := v1alpha1.RolloutWave{Name: "canary", NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"canary": "true"}}, Soak: "24h"}
	of := func(name string, s intstr.IntOrString) v1alpha1.RolloutWave {
		return v1alpha1.RolloutWave{Name: name, Size: size(s)}
	}
	valid := func() *v1alpha1.RolloutPolicy {
		return &v1alpha1.RolloutPolicy{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}
	}
	checkCreate(t, valid, []validation[*v1alpha1.RolloutPolicy]{
		{name: "canaries, then numbers, then percentages", change: waves(canary, of("five", intstr.FromInt32(5)), of("tenth", intstr.FromString("10%")), of("half", intstr.FromString("50%")))},
		{name: "a wave that chooses and counts", change: waves(v1alpha1.RolloutWave{Name: "one", NodeSelector: canary.NodeSelector, Size: size(intstr.FromInt32(1))})},
		{name: "halt, resume and abort", change: func(p *v1alpha1.RolloutPolicy) {
			p.Spec.Halt = &v1alpha1.RolloutHalt{MaxFailures: size(intstr.FromString("5%")), MaxHeld: 13, MaxConsecutiveFailures: new(int32(3)), LenientAfter: "80%"}
			p.Spec.Requests, p.Spec.State = &v1alpha1.RolloutRequests{Resume: "after the vendor's fix"}, v1alpha1.RolloutAborted
		}},
		{name: "a halt after a number of failures", change: func(p *v1alpha1.RolloutPolicy) {
			p.Spec.Halt = &v1alpha1.RolloutHalt{MaxFailures: size(intstr.FromInt32(2))}
		}},
		{name: "a wave of nothing", change: waves(v1alpha1.RolloutWave{Name: "empty"}), field: "spec.waves[0]", message: "a wave needs a nodeSelector, a size or both"},
		{name: "no nodes", change: waves(of("none", intstr.FromInt32(0))), field: "spec.waves[0].size", message: "size must be a number of nodes from 1 or a percentage from 1% to 100%"},
		{name: "no percentage", change: waves(of("none", intstr.FromString("0%"))), field: "spec.waves[0].size", message: "should match"},
		{name: "words", change: waves(of("some", intstr.FromString("some"))), field: "spec.waves[0].size", message: "should match"},
		{name: "numbers out of order", change: waves(of("five", intstr.FromInt32(5)), of("two", intstr.FromInt32(2))), field: "spec.waves", message: "the size of a wave includes the waves before it, so it must not decrease"},
		{name: "one name twice", change: waves(of("a", intstr.FromInt32(1)), of("a", intstr.FromInt32(2))), field: "spec.waves[1]", message: "Duplicate"},
		{name: "the name of the rest", change: waves(of("rest", intstr.FromInt32(1))), field: "spec.waves[0].name", message: "rest is reserved for the nodes after the last wave; choose another name"},
		{name: "a soak of years", change: waves(v1alpha1.RolloutWave{Name: "a", Size: size(intstr.FromInt32(1)), Soak: "9999h"}), field: "spec.waves[0].soak", message: "soak must be a duration from 0s to 720h, such as 24h"},
		{name: "a halt that never comes", change: func(p *v1alpha1.RolloutPolicy) {
			p.Spec.Halt = &v1alpha1.RolloutHalt{MaxFailures: size(intstr.FromString("100%"))}
		}, field: "spec.halt.maxFailures", message: "should match"},
		{name: "a halt at once", change: func(p *v1alpha1.RolloutPolicy) {
			p.Spec.Halt = &v1alpha1.RolloutHalt{MaxFailures: size(intstr.FromInt32(0))}
		}, field: "spec.halt.maxFailures", message: "maxFailures must be a number of nodes from 1 to 10000 or a percentage from 1% to 99%"},
		{name: "lenient after a number", change: func(p *v1alpha1.RolloutPolicy) { p.Spec.Halt = &v1alpha1.RolloutHalt{LenientAfter: "80"} },
			field: "spec.halt.lenientAfter", message: "should match"},
		{name: "a request that is a book", change: func(p *v1alpha1.RolloutPolicy) {
			p.Spec.Requests = &v1alpha1.RolloutRequests{Resume: strings.Repeat("x", 129)}
		}, field: "spec.requests.resume", message: "128"},
		{name: "an unknown state", change: func(p *v1alpha1.RolloutPolicy) { p.Spec.State = "Stopped" }, field: "spec.state", message: "Aborted"},
	})
}
