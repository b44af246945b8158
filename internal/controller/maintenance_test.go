package controller

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/config"
)

// Labels that anybody can put on a pod spare it nothing outside the product's namespace.
func TestADrainSparesTheOperatorAndThePodsOfJobs(t *testing.T) {
	pod := func(namespace, label, value string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Labels: map[string]string{label: value}}}
	}
	for name, tc := range map[string]struct {
		strategy string
		pod      *corev1.Pod
		taken    bool
	}{
		"the operator":                         {config.StrategyDaemon, pod("fw", componentLabel, "operator"), false},
		"an operator elsewhere":                {config.StrategyDaemon, pod("other", componentLabel, "operator"), true},
		"a pod that executes a job":            {config.StrategyPod, pod("fw", v1alpha1.JobPodLabel, "u"), false},
		"its label elsewhere":                  {config.StrategyPod, pod("other", v1alpha1.JobPodLabel, "u"), true},
		"its label where daemons execute jobs": {config.StrategyDaemon, pod("fw", v1alpha1.JobPodLabel, "u"), true},
		"another pod of the product":           {config.StrategyPod, pod("fw", "a", "b"), true},
	} {
		o := drainOptions(config.Operator{Namespace: "fw", UpdateStrategies: []string{tc.strategy}, DrainForce: true})
		assert.Equal(t, tc.taken, o.Takes(tc.pod), name)
		assert.True(t, o.Force && !o.DeleteEmptyDir)
	}
}
