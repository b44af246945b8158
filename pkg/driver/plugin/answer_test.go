package plugin

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// FuzzParseAnswer: what the tool prints is refused, or makes sense.
func FuzzParseAnswer(f *testing.F) {
	good, err := json.Marshal(Answer{Info: Info{Name: "acme", Version: "1", Matches: []Match{{Class: inventory.NIC, Support: 3}}}})
	require.NoError(f, err)
	f.Add([]byte("progress 1\n" + AnswerPrefix + string(good) + "\n"))
	f.Add([]byte(AnswerPrefix + "{}"))
	f.Add([]byte("answer"))
	f.Fuzz(func(t *testing.T, stdout []byte) {
		a, err := parseAnswer(stdout)
		if err != nil {
			require.ErrorIs(t, err, ErrInvalid)
			require.Zero(t, a)
			return
		}
		require.NoError(t, a.Info.Check())
		require.NotEqual(t, "Unknown", a.Needs.String())
	})
}
