package reboot_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/node/reboot"
	"github.com/nodefirmware/node-firmware-operator/pkg/command"
)

// said is a host whose systemctl prints this.
type said string

func (s said) Run(_ context.Context, c command.Command) (command.Result, error) {
	if c.String() != "systemctl show --property=ActiveEnterTimestampMonotonic sysinit.target" {
		return command.Result{ExitCode: 1}, nil
	}
	return command.Result{Stdout: []byte(s)}, nil
}

func TestReadsBootTimeFromHost(t *testing.T) {
	for name, c := range map[string]struct {
		output string
		want   time.Duration
		err    string
	}{
		"services can start":           {"ActiveEnterTimestampMonotonic=8870955\n", 8870955 * time.Microsecond, ""},
		"it is not that far":           {"ActiveEnterTimestampMonotonic=0\n", 0, ""},
		"nothing":                      {"", 0, "no ActiveEnterTimestampMonotonic"},
		"another property":             {"FinishTimestampMonotonic=41870955\n", 0, "no ActiveEnterTimestampMonotonic"},
		"no number":                    {"ActiveEnterTimestampMonotonic=soon\n", 0, "no number of microseconds"},
		"a number that is no duration": {"ActiveEnterTimestampMonotonic=18446744073709551615\n", 0, "no number"},
	} {
		t.Run(name, func(t *testing.T) {
			took, err := reboot.Host{Runner: said(c.output), Systemctl: reboot.Direct()}.Took(t.Context())
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, c.want, took)
		})
	}
}

func TestHostThatCannotBeAskedDoesNotSayHowLongItsBootTook(t *testing.T) {
	_, err := reboot.Host{Runner: &host{code: 1}, Systemctl: reboot.Direct()}.Took(t.Context())
	require.ErrorContains(t, err, "Access denied")
}
