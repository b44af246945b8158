package table_test

import (
	"bytes"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/nodefirmware/node-firmware-operator/internal/table"
)

func TestColumnsAreAlignedAndCutWhereTheyGiveWay(t *testing.T) {
	header := []string{"NODE", "WHY"}
	rows := [][]string{{"node-0", "held by a job  that failed\nfor ever"}, {"n", ""}, {"größer", "ok"}}
	for width, want := range map[int]string{
		0:  "NODE     WHY\nnode-0   held by a job that failed for ever\nn        -\ngrößer   ok\n",
		30: "NODE     WHY\nnode-0   held by a job that f…\nn        -\ngrößer   ok\n",
		5:  "NODE     WHY\nnode-0   held by…\nn        -\ngrößer   ok\n",
	} {
		var out strings.Builder
		require.NoError(t, table.Write(&out, width, header, rows, 1))
		assert.Equal(t, want, out.String(), width)
	}
}

func TestALineFitsWhateverIsInIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cell := rapid.StringMatching(`[ -~äß€]{0,60}`)
		rows := rapid.SliceOfN(rapid.SliceOfN(cell, 3, 3), 0, 8).Draw(t, "rows")
		width := rapid.IntRange(30, 100).Draw(t, "width")
		var out strings.Builder
		require.NoError(t, table.Write(&out, width, []string{"A", "B", "C"}, rows, 0, 1, 2))
		lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		require.Len(t, lines, len(rows)+1)
		for _, line := range lines {
			assert.LessOrEqual(t, utf8.RuneCountInString(line), width, line)
		}
	})
}

// lines is a writer that wants whole lines, as one does that replaces what a terminal would act on.
type lines struct {
	t    *testing.T
	text strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	assert.True(l.t, bytes.HasSuffix(b, []byte("\n")))
	return l.text.Write(b)
}

func TestALongTableIsWrittenInWholeLines(t *testing.T) {
	var rows [][]string
	want := "N       WHY\n"
	for i := range 5000 {
		rows = append(rows, []string{strconv.Itoa(10000 + i), "größer €"})
		want += strconv.Itoa(10000+i) + "   größer €\n"
	}
	out := &lines{t: t}
	require.NoError(t, table.Write(out, 0, []string{"N", "WHY"}, rows))
	assert.Equal(t, want, out.text.String())
}
