package admin

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// recorder answers every command with one status and keeps what it got.
type recorder struct {
	Controller
	got    Command
	size   int
	status Status
	err    error
}

func (r *recorder) Do(c *Command, data []byte) (Status, error) {
	r.got, r.size = *c, len(data)
	if c.Opcode == OpcodeIdentify {
		copy(data[atFR:], "1.0     ")
	}
	return r.status, r.err
}

func TestCommandsAreSpelledAsTheSpecificationSays(t *testing.T) {
	for name, c := range map[string]struct {
		send func(Controller) error
		want Command
		size int
	}{
		"identify": {
			func(c Controller) error { _, err := Identify(c); return err },
			Command{Opcode: 0x06, CDW10: 1, TimeoutMilliseconds: 60_000}, 4096,
		},
		"slot log": {
			func(c Controller) error { _, err := ReadSlotLog(c); return err },
			Command{Opcode: 0x02, Namespace: 0xffffffff, CDW10: 0x007f0003, TimeoutMilliseconds: 60_000}, 512,
		},
		"download counts dwords, from zero": {
			func(c Controller) error { _, err := Download(c, make([]byte, 4096), 8192); return err },
			Command{Opcode: 0x11, CDW10: 1023, CDW11: 2048, TimeoutMilliseconds: 180_000}, 4096,
		},
		"commit of slot 3 with action 1": {
			func(c Controller) error { _, err := Commit(c, 3, ReplaceAtReset); return err },
			Command{Opcode: 0x10, CDW10: 0b001_011, TimeoutMilliseconds: 600_000}, 0,
		},
		"commit of slot 2 with action 3": {
			func(c Controller) error { _, err := Commit(c, 2, ActivateNow); return err },
			Command{Opcode: 0x10, CDW10: 0b011_010, TimeoutMilliseconds: 600_000}, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var r recorder
			require.NoError(t, c.send(&r))
			assert.Equal(t, c.want, r.got)
			assert.Equal(t, c.size, r.size)
		})
	}
}

func TestRefusedReadNamesStatus(t *testing.T) {
	_, err := ReadSlotLog(&recorder{status: 0x109})
	var refused *StatusError
	require.ErrorAs(t, err, &refused)
	assert.Equal(t, Status(0x109), refused.Status)
	assert.EqualError(t, err, "read firmware slot log: the drive answered 0x109 (invalid log page)")
	broken := errors.New("input/output error")
	_, err = Identify(&recorder{err: broken})
	require.ErrorIs(t, err, broken)
	assert.NotErrorAs(t, err, new(*StatusError))
}

func TestAStatusIsTakenWithoutTheBitsAboutTryingAgain(t *testing.T) {
	assert.Equal(t, NeedsConventionalReset, CleanStatus(0x410b))
	assert.Equal(t, NeedsConventionalReset, CleanStatus(0x7d0b&^0x400))
	assert.Equal(t, "0x2ff", Status(0x2ff).String())
}
