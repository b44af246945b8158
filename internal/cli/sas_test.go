package cli_test

import (
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/cli"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/simhost"
)

// updatingSAS wants another version on the machine's SAS drive, and has an image of the running one.
func (s *stage) updatingSAS(t *testing.T) cli.Applying {
	t.Helper()
	spec, err := s.Spec()
	require.NoError(t, err)
	o := simhost.ImageOptions{Model: spec.SCSI[0].Model, Version: "E005"}
	newer, newerSum := s.image(t, "newer.lod", simhost.SCSIImage, o)
	o.Version = spec.SCSI[0].Version
	older, olderSum := s.image(t, "older.lod", simhost.SCSIImage, o)
	a := s.applying(t, io.Discard)
	a.Docs, err = cli.Load([]string{s.write(t, fmt.Sprintf(`
apiVersion: nodefirmware.io/v1alpha1
kind: FirmwareTemplate
metadata: {name: drives}
spec:
  rules:
  - name: exos
    selector: {class: Disk, vendor: seagate, models: [ST16000NM006J]}
    version: E005
    sourceRef: {name: exos}
---
apiVersion: nodefirmware.io/v1alpha1
kind: FirmwareSource
metadata: {name: exos}
spec:
  files:
  - url: file://%s
    digest: sha256:%s
    images: [{class: Disk, models: [ST16000NM006J], version: E005}]
  - url: file://%s
    digest: sha256:%s
    images: [{class: Disk, models: [ST16000NM006J], version: E004}]
`, newer, newerSum, older, olderSum))})
	require.NoError(t, err)
	return a
}

func newStageWithSAS(t *testing.T, change func(*simhost.SCSI)) *stage {
	t.Helper()
	return newStageOf(t, func(s *simhost.Spec) { change(&s.SCSI[0]) })
}

// A SAS drive cannot tell what waits in it: the job goes by what the tool said until the drive runs the image.
func TestApplyUpdatesASASDrive(t *testing.T) {
	for name, change := range map[string]func(*simhost.SCSI){
		"that activates deferred microcode": func(*simhost.SCSI) {},
		"that activates what it saves":      func(d *simhost.SCSI) { d.Modes = []int{7} },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStageWithSAS(t, change)
			out, err := cli.Apply(t.Context(), s.updatingSAS(t))
			require.NoError(t, err)
			assert.Equal(t, "Complete", out.Result)
			s.assertSAS(t, "E005", 1)
			out, err = cli.Apply(t.Context(), s.updatingSAS(t))
			require.NoError(t, err)
			assert.Equal(t, "NothingToDo", out.Result)
			s.assertSAS(t, "E005", 1)
		})
	}
}

func TestApplyRebootsForASASDriveThatCannotActivate(t *testing.T) {
	for name, change := range map[string]func(*simhost.SCSI){
		"deferred": func(d *simhost.SCSI) { d.Activation = simhost.Reboot },
		"saved":    func(d *simhost.SCSI) { d.Activation, d.Modes = simhost.Reboot, []int{7} },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStageWithSAS(t, change)
			for range 2 { // it is not written again
				_, err := cli.Apply(t.Context(), s.updatingSAS(t))
				require.ErrorIs(t, err, cli.ErrRebootPending)
				s.assertSAS(t, "E004", 1)
			}
			require.NoError(t, s.Boot())
			out, err := cli.Apply(t.Context(), s.updatingSAS(t))
			require.NoError(t, err)
			assert.Equal(t, "Complete", out.Result)
			s.assertSAS(t, "E005", 1)
		})
	}
}

func (s *stage) assertSAS(t *testing.T, running string, writes int) {
	t.Helper()
	d, err := s.Device("sda")
	require.NoError(t, err)
	assert.Equal(t, running, d.Running)
	assert.Equal(t, writes, s.count(t, "Write"))
}
