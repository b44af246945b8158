package main

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestSourceCommandTellsByItsExitCode(t *testing.T) {
	image := filepath.Join("..", "..", "pkg", "imageinfo", "testdata", "fs3.bin")
	for name, tc := range map[string]struct {
		args  []string
		code  int
		wrote bool
	}{
		"complete":        {[]string{image, "--url=https://mirror.example.com/fw/"}, 0, true},
		"to be filled in": {[]string{image}, 2, true},
		"another version": {[]string{image, "--url=https://mirror.example.com/fw/", "--firmware-version=1", "--class=NIC", "--vendor=15b3", "--model=101d"}, 1, false},
		"no such file":    {[]string{"/no/such/file"}, 1, false},
		"a wrong class":   {[]string{image, "--class=Drive"}, 1, false},
		"no file":         {nil, 1, false},
	} {
		var out bytes.Buffer
		c := root()
		c.SetArgs(append([]string{"source"}, tc.args...))
		c.SetOut(&out)
		assert.Equal(t, tc.code, exitCode(c.ExecuteContext(t.Context())), name)
		assert.Equal(t, tc.wrote, bytes.Contains(out.Bytes(), []byte("kind: FirmwareSource")), name)
	}
}
