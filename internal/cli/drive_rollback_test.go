package cli_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/maintenance"
	"github.com/nodefirmware/node-firmware-operator/internal/node/engine"
	"github.com/nodefirmware/node-firmware-operator/internal/node/health"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/internal/node/state"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/simhost"
	"github.com/nodefirmware/node-firmware-operator/internal/version"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// files are images by digest, as a source holds them.
type files map[inventory.Digest]string

func (f files) Fetch(_ context.Context, d inventory.Digest) (path string, size int64, err error) {
	info, err := os.Stat(f[d])
	if err != nil {
		return "", 0, err
	}
	return f[d], info.Size(), nil
}

func (f files) add(t *testing.T, kind simhost.ImageKind, o simhost.ImageOptions) string {
	t.Helper()
	data := simhost.BuildImage(kind, o)
	path := filepath.Join(t.TempDir(), o.Version)
	require.NoError(t, os.WriteFile(path, data, 0o600))
	d := inventory.Digest(sha256.Sum256(data))
	f[d] = path
	return d.String()
}

// rebooter reboots the simulated machine under the engine, which no reboot ends here.
type rebooter struct{ *stage }

// CanReboot implements engine.Rebooter.
func (r rebooter) CanReboot(context.Context) error { return nil }

func (r rebooter) Reboot(context.Context) error { return r.Boot() }

// updateDrive lets the engine of the daemon update the disk with the unique id, which is judged for a moment only.
func (s *stage) updateDrive(t *testing.T, images files, u journal.Update) journal.Job {
	t.Helper()
	known, err := state.Open(filepath.Join(s.dir, "state"), state.Options{Daemon: version.Current()})
	require.NoError(t, err)
	defer func() { require.NoError(t, known.Close()) }()
	limits := step.DefaultLimits()
	limits.Health = 200 * time.Millisecond
	window := &maintenance.None{}
	e := engine.New(engine.Config{
		Journal: known.Journal, Archive: known.Archive, Host: s.hardware, Drivers: s.hardware.Drivers, Images: images,
		Maintenance: window, Rebooter: rebooter{s}, Writes: s.hardware.Runner, BootID: s.hardware.BootID, Limits: limits, Poll: 10 * time.Millisecond,
		Health: health.Checker{Scanner: s.hardware, Checks: &health.Checks{
			FS: s.hardware.FS, Runner: s.hardware.Runner, Launch: health.Launch(s.Dir()), Advise: func(health.Advice) {},
		}},
	})
	updates := []journal.Update{u}
	j := journal.Job{Name: "j", UID: "j", Accepted: time.Now(), Updates: updates, Record: engine.NewRecord(plan.Catalog{}, updates)}
	require.NoError(t, window.Schedule(t.Context()))
	require.NoError(t, e.Submit(j))
	done, err := e.Execute(t.Context(), j)
	require.NoError(t, err)
	return done
}

// forbid installs a check of the administrator that fails as long as the command prints the text.
func (s *stage) forbid(t *testing.T, text, command string) {
	t.Helper()
	file := filepath.Join(s.Dir(), "etc/node-firmware/check/required.d/10-drive")
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	body := fmt.Sprintf("#!/bin/sh\n%s/%s | grep -aq %s && { echo slow; exit 1; }\nexit 0\n", s.ToolPath(), command, text)
	require.NoError(t, os.WriteFile(file, []byte(body), 0o755)) //nolint:gosec // an executable
}

func requireBroughtBack(t *testing.T, j journal.Job, reason step.Reason) {
	t.Helper()
	require.NotNil(t, j.Record.Failure)
	assert.Equal(t, reason, j.Record.Failure.Reason, j.Record.Failure.Message)
	assert.True(t, j.Record.RolledBack(), "%+v", j.Record.Rollback)
	assert.False(t, j.Record.NeedsIntervention())
}

// A SAS drive cannot be read out. Its new firmware passes every check of the image, and the node is unhealthy with it, or it
// is not what it was declared to be: the engine writes what ran before back by itself, in the same job.
// It proves R002-2.
func TestASASDriveWhoseNewFirmwareIsAtFaultIsBroughtBack(t *testing.T) {
	for name, change := range map[string]func(*simhost.SCSI){
		"that activates deferred microcode": func(*simhost.SCSI) {},
		"that activates what it saves":      func(d *simhost.SCSI) { d.Modes = []int{7} },
	} {
		for fault, holds := range map[string]string{"unhealthy": "E005", "not what was declared": "E0XX"} {
			t.Run(name+", "+fault, func(t *testing.T) {
				s := newStageWithSAS(t, change)
				spec, err := s.Spec()
				require.NoError(t, err)
				images := files{}
				o := simhost.ImageOptions{Model: spec.SCSI[0].Model, Version: holds}
				u := journal.Update{Class: inventory.Disk,
					Device: "sas", UniqueID: "naa." + spec.SCSI[0].WWN, FromVersion: "E004", Version: "E005",
					Digest: images.add(t, simhost.SCSIImage, o),
				}
				o.Version = "E004"
				u.RollbackDigest = images.add(t, simhost.SCSIImage, o)
				s.forbid(t, "E005", "sg_inq --raw /dev/sg0")

				j := s.updateDrive(t, images, u)
				if holds == "E005" {
					requireBroughtBack(t, j, step.Unhealthy)
				} else {
					requireBroughtBack(t, j, step.VerifyFailed)
				}
				s.assertSAS(t, "E004", 2)
			})
		}
	}
}

// Without an image of what ran before, nothing can be written back, and a person is called.
// It proves R002-1.
func TestASASDriveWithoutAnImageOfWhatRanWaitsForAPerson(t *testing.T) {
	s := newStageWithSAS(t, func(*simhost.SCSI) {})
	spec, err := s.Spec()
	require.NoError(t, err)
	images := files{}
	s.forbid(t, "E005", "sg_inq --raw /dev/sg0")
	j := s.updateDrive(t, images, journal.Update{Class: inventory.Disk,
		Device: "sas", UniqueID: "naa." + spec.SCSI[0].WWN, FromVersion: "E004", Version: "E005",
		Digest: images.add(t, simhost.SCSIImage, simhost.ImageOptions{Model: spec.SCSI[0].Model, Version: "E005"}),
	})
	assert.True(t, j.Record.NeedsIntervention())
	require.NotNil(t, j.Record.Rollback)
	assert.Contains(t, j.Record.Rollback.Failure.Message, "no FirmwareSource holds an image of the running E004")
	s.assertSAS(t, "E005", 1)
}

// A SATA drive is updated through fwupd, and restored when its new firmware is at fault.
// It proves R002-2.
func TestSATAUpdateAndRollback(t *testing.T) {
	for name, healthy := range map[string]bool{"good firmware": true, "firmware at fault": false} {
		t.Run(name, func(t *testing.T) {
			d := simhost.DefaultSATA(1)
			s := newStageOf(t, func(spec *simhost.Spec) { spec.SATA = []simhost.SATA{d} })
			images := files{}
			u := journal.Update{Class: inventory.Disk,
				Device: "sata", UniqueID: "naa." + d.WWN, FromVersion: d.Version, Version: "D4MU002",
				Digest:         images.add(t, simhost.ATAImage, simhost.ImageOptions{GUID: d.GUID(), Version: "D4MU002"}),
				RollbackDigest: images.add(t, simhost.ATAImage, simhost.ImageOptions{GUID: d.GUID(), Version: d.Version}),
			}
			if !healthy {
				s.forbid(t, "D4MU002", "fwupdtool get-devices --json --plugins ata")
			}
			j := s.updateDrive(t, images, u)
			running, err := s.Running(d.Key)
			require.NoError(t, err)
			if healthy {
				assert.Equal(t, step.Complete, j.Record.Outcome, "%+v", j.Record.Failure)
				assert.Equal(t, "D4MU002", running)
				return
			}
			requireBroughtBack(t, j, step.Unhealthy)
			assert.Equal(t, d.Version, running)
			assert.Equal(t, 2, s.count(t, "Write"))
		})
	}
}
