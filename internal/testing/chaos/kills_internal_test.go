package chaos

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/node/engine"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
)

// kills kill the daemon at each of so many boundaries, from the middle of the run on.
func kills(t *testing.T, s Scenario, each int) []Fault {
	t.Helper()
	golden, err := Run{Scenario: s}.Do()
	require.NoError(t, err)
	var faults []Fault
	for at := golden.Points / 2; len(faults) < maxLives-10; at += each {
		faults = append(faults, Fault{At: at, Kind: KillDaemon})
	}
	return faults
}

// A node that its own update cuts off helps itself, however often its daemon is killed while it waits (R002-9).
func TestKillsOfTheDaemonDoNotKeepACutOffNodeFromHelpingItself(t *testing.T) {
	for _, name := range []string{"cut-off-by-its-nic", "cut-off-with-a-link"} {
		s, err := scenario(name)
		require.NoError(t, err)
		for _, each := range []int{3, 7, 12, 25, 40} {
			t.Run(fmt.Sprintf("%s, at every boundary %d", name, each), func(t *testing.T) {
				out, err := Run{Scenario: s, Faults: kills(t, s, each)}.Do()
				require.NoError(t, err)
				assert.Empty(t, out.Violations, strings.Join(out.Trace, "\n"))
				assert.Equal(t, "rolled back", out.End)
				assert.GreaterOrEqual(t, out.Struck, 5)
			})
		}
		t.Run(name+", by a daemon that begins to wait anew", func(t *testing.T) {
			anew := func(_ *world, c *engine.Config) { c.Journal = restless{c.Journal} }
			out, err := Run{Scenario: s, Faults: kills(t, s, 25), sabotage: anew}.Do()
			require.NoError(t, err)
			require.NotEmpty(t, out.Violations)
			assert.Equal(t, "Alone", out.Violations[0].Invariant)
		})
	}
}

// restless is a journal that forgets how long the node has been cut off.
type restless struct{ engine.Journal }

func (r restless) Save(job journal.Job, devices ...journal.Device) error {
	job.CutOff = nil
	return r.Journal.Save(job, devices...)
}
