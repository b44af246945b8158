package vm_test

import (
	"bytes"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm"
)

func TestRelayCarriesBothWaysUntilTheServerEnds(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	go func() {
		c, err := listener.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		request, _ := io.ReadAll(c)
		_, _ = c.Write(bytes.ToUpper(request))
	}()
	var out bytes.Buffer
	require.NoError(t, vm.Relay(listener.Addr().String(), strings.NewReader("request"), &out))
	assert.Equal(t, "REQUEST", out.String())
}

func TestRelaySaysWhenNobodyAnswers(t *testing.T) {
	require.Error(t, vm.Relay("127.0.0.1:0", strings.NewReader(""), io.Discard))
}
