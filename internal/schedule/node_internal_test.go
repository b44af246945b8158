package schedule

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// Whether a failed job is followed is asked of the jobs of its node only, and nothing is kept of nodes that none holds: thousands of
// failed jobs and a long history make no pass that grows with their product.
func TestAHeldJobIsComparedWithTheJobsOfItsNode(t *testing.T) {
	comparisons := func(nodes int) (count int) {
		f := Facts{Policies: []Policy{{Name: v1alpha1.DefaultRolloutPolicy, Selector: labels.Everything()}}}
		for i := range nodes {
			name := fmt.Sprint("n", i)
			f.Nodes = append(f.Nodes, Node{Name: name, Ready: true})
			for age, state := range []JobState{Finished, Finished, Finished, []JobState{Held, Admitted}[i%2], Queued} {
				uid := fmt.Sprint(name, "-", age)
				f.Jobs = append(f.Jobs, Job{Name: uid, UID: uid, Node: name, State: state, Created: time.Unix(int64(age), 0)})
			}
		}
		for _, n := range newPass(f).nodes {
			count += len(n.held) * len(n.admitted)
		}
		return count
	}
	assert.Equal(t, 100*4, comparisons(200))
	assert.Equal(t, 1000*4, comparisons(2000))
}
