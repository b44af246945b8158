package chaos

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/node/archive"
	"github.com/nodefirmware/node-firmware-operator/internal/node/engine"
	"github.com/nodefirmware/node-firmware-operator/internal/node/health"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/internal/node/maintenance"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// What the engine relies on is broken on purpose: a checker that never finds anything proves nothing.
func TestSabotageIsFoundOut(t *testing.T) {
	for name, c := range map[string]struct {
		scenario string
		sabotage func(*engine.Config)
		finds    string
	}{
		"a journal that forgets": {"nic-reset", func(c *engine.Config) { c.Journal = &forgetful{Journal: c.Journal} }, "I1"},
		"an archive that a power cut takes away": {
			"bios-image", func(c *engine.Config) { c.Archive = &careless{dir: t.TempDir()} }, "I1",
		},
		"writes that go on unseen": {"nic-reset", func(c *engine.Config) { c.Writes = blind{} }, "I2"},
		"a gate that finds every host healthy": {
			"bad-nic-rolled-back", func(c *engine.Config) { c.Health = cheerful{c.Health} }, "I4",
		},
		"a maintenance that is taken for granted": {
			"nic-reset", func(c *engine.Config) { c.Maintenance = &maintenance.None{} }, "I1",
		},
		"a boot id that never changes": {
			"nic-reset", func(c *engine.Config) { c.BootID = func() (string, error) { return "boot-0", nil } }, "R002-31",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := scenario(c.scenario)
			require.NoError(t, err)
			require.Equal(t, c.finds, hunt(t, s, c.sabotage))
		})
	}
}

// hunt breaks boundaries until an invariant is violated, and returns which.
func hunt(t *testing.T, s Scenario, sabotage func(*engine.Config)) string {
	t.Helper()
	golden, err := Run{Scenario: s, sabotage: sabotage}.Do()
	require.NoError(t, err)
	if len(golden.Violations) > 0 {
		return golden.Violations[0].Invariant
	}
	for _, b := range distinct(golden.boundaries) {
		for _, f := range possible(b.Op, b.number) {
			out, err := Run{Scenario: s, Faults: []Fault{f}, sabotage: sabotage}.Do()
			require.NoError(t, err)
			if len(out.Violations) > 0 {
				return out.Violations[0].Invariant
			}
		}
	}
	return "nothing"
}

// forgetful keeps of each job how it came and how it ended.
type forgetful struct {
	engine.Journal
	known bool
}

func (f *forgetful) Save(j journal.Job, devices ...journal.Device) error {
	if f.known && j.Record.Outcome == "" {
		return nil
	}
	f.known = true
	return f.Journal.Save(j, devices...)
}

// careless archives in a directory it never syncs.
type careless struct{ dir string }

func (c *careless) Keep(ctx context.Context, m archive.Manifest, fill func(context.Context, string) error) error {
	path := filepath.Join(c.dir, m.UniqueID+string(m.Version))
	_ = os.Remove(path)
	return fill(ctx, path)
}

func (c *careless) Image(uid string, v inventory.Version) (driver.Image, archive.Manifest, error) {
	path := filepath.Join(c.dir, uid+string(v))
	raw, err := os.ReadFile(path)
	if err != nil {
		return driver.Image{}, archive.Manifest{}, archive.ErrNone
	}
	img := driver.Image{Path: path, Version: v, Digest: firmware{content: string(raw)}.digest(), Size: int64(len(raw))}
	return img, archive.Manifest{UniqueID: uid, BoardID: "BOARD_" + uid, Version: v}, nil
}

type blind struct{}

func (blind) WriteRunning(string) (bool, error) { return false, nil }

type cheerful struct{ engine.Health }

func (cheerful) Check(context.Context, health.Baseline, []health.Target) ([]health.Complaint, error) {
	return nil, nil
}
