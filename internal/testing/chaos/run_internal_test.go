package chaos

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGoldenRuns(t *testing.T) {
	for _, s := range Scenarios() {
		t.Run(s.Name, func(t *testing.T) {
			out, err := Run{Scenario: s, Aftermath: Again}.Do()
			require.NoError(t, err)
			t.Log(out.End, out.Points, len(distinct(out.boundaries)))
			require.Empty(t, out.Violations, strings.Join(out.Trace, "\n"))
		})
	}
}
