package trial_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm/trial"
)

func TestGroupBuildsOnFirstCheck(t *testing.T) {
	list := trial.Checks[int]{{Group: "boot", Name: "a"}, {Group: "scsi", Name: "b"}, {Group: "nvme", Name: "c"}, {Group: "scsi", Name: "d"}}
	assert.Equal(t, []string{"boot", "scsi", "nvme"}, list.Groups())
	for _, c := range []struct {
		groups []string
		want   string
	}{{nil, "abcd"}, {[]string{"scsi"}, "abd"}, {[]string{"boot"}, "a"}} {
		chosen, err := list.Of(c.groups)
		require.NoError(t, err)
		got := ""
		for _, one := range chosen {
			got += one.Name
		}
		assert.Equal(t, c.want, got)
	}
	_, err := list.Of([]string{"scsi", "sata"})
	require.ErrorContains(t, err, `no checks "sata": boot, scsi, nvme`)
	assert.Len(t, list, 4)
}

func TestCheckPrintsOneLine(t *testing.T) {
	printed := ""
	say := func(format string, args ...any) { printed += fmt.Sprintf(format, args...) + "\n" }
	check := trial.Check[string]{Name: "a disk is updated", Run: func(_ context.Context, s string) (string, error) { return s, nil }}
	require.NoError(t, check.Do(t.Context(), "1 to 2", say))
	assert.Regexp(t, `^ok +[0-9.]+ s  a disk is updated: 1 to 2\n$`, printed)
	printed = ""
	check.Run = func(context.Context, string) (string, error) { return "x", errors.New("it is not there") }
	require.EqualError(t, check.Do(t.Context(), "", say), "a disk is updated: it is not there")
	assert.Regexp(t, `^FAIL +[0-9.]+ s  a disk is updated\n$`, printed)
}
