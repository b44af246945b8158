package docs_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/node/engine"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

func TestThePageOfATransactionTellsTheBoundsOfTheCode(t *testing.T) {
	text, err := os.ReadFile("concepts/transaction.md")
	require.NoError(t, err)
	for row, bound := range map[string]int{
		"`restore` of a job": step.MaxAttempts, "not part of every update": step.MaxTaskAttempts,
		"such a step after an interruption": step.MaxInterruptions, "reboots of one job": step.MaxReboots,
		"writes of one image to one device": engine.MaxWrites, "a driver changed": step.MaxRestarts,
	} {
		assert.Regexp(t, fmt.Sprintf(`(?m)^\| [^|]*%s[^|]* \| [^|\d]*%d\b`, row, bound), string(text), row)
	}
}
