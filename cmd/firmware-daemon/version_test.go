package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/version"
)

// TestVersionFlagPrintsTheVersionOfTheBuild proves R002-61.
func TestVersionFlagPrintsTheVersionOfTheBuild(t *testing.T) {
	var out bytes.Buffer
	c := root()
	c.SetOut(&out)
	c.SetArgs([]string{"--version"})
	require.NoError(t, c.Execute())
	assert.Equal(t, "firmware-daemon version "+version.Current()+"\n", out.String())
}
