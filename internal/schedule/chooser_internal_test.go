package schedule

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/labels"
	"pgregory.net/rapid"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// A chooser finds the policies that Chosen finds by asking each of them.
func TestChooserAgreesWithPolicies(t *testing.T) {
	selectors := []string{"", "pool=a", "pool==b", "pool in (a,b)", "pool!=a", "pool", "!pool", "rack=r1", "pool=a,rack in (r1,r2)",
		"pool notin (a)", "pool in ()", "rack", "pool=a,rack!=r1"}
	rapid.Check(t, func(t *rapid.T) {
		var policies []Policy
		for i := range rapid.IntRange(0, 6).Draw(t, "policies") {
			s, err := labels.Parse(rapid.SampledFrom(selectors).Draw(t, "selector"))
			require.NoError(t, err)
			p := Policy{Name: fmt.Sprint("p", i), Selector: s}
			switch rapid.IntRange(0, 5).Draw(t, "kind") {
			case 0:
				p.Invalid = "it is"
			case 1:
				p.Selector = labels.Nothing()
			case 2:
				p.Name = v1alpha1.DefaultRolloutPolicy
			}
			policies = append(policies, p)
		}
		node := map[string]string{}
		for _, key := range []string{"pool", "rack"} {
			if value := rapid.SampledFrom([]string{"-", "", "a", "b", "r1", "r2"}).Draw(t, key); value != "-" {
				node[key] = value
			}
		}
		var got []string
		c := newChooser(policies)
		for _, at := range c.of(node) {
			got = append(got, policies[at].Name)
		}
		require.Equal(t, Chosen(policies, node), got)
	})
}
