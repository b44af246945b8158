package nvmetcp

import (
	"bytes"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest/nvmectrl"
)

// endless is a host that never stops sending.
type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	clear(p)
	e.read += len(p)
	return len(p), nil
}

func FuzzReadPDU(f *testing.F) {
	ic := make([]byte, icLength)
	ic[2], ic[4] = icLength, icLength
	f.Add(ic)
	command := begin(header{kind: capsuleCmd, headerLength: cmdLength, dataOffset: cmdLength}, 8)
	f.Add(append(command, 1, 2, 3, 4, 5, 6, 7, 8))
	data := begin(header{kind: hostData, headerLength: dataLength, dataOffset: dataLength}, 4)
	f.Add(append(data, 1, 2, 3, 4))
	f.Add(makeTerm(&protocolError{excerpt: ic}))
	f.Add([]byte{4, 0, 72, 72, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := readPDU(bytes.NewReader(b))
		if err == nil {
			assert.Equal(t, int(p.length), commonLength+len(p.fields)+len(p.data))
			assert.Equal(t, int(p.headerLength), commonLength+len(p.fields))
			if p.kind == capsuleCmd {
				c, err := parseCommand(p.fields)
				require.NoError(t, err)
				if c.check(len(p.data)) == nvmectrl.Success {
					assert.LessOrEqual(t, c.dataLength(), uint32(transferMax))
				}
			}
		}
		host := &endless{}
		_, _ = readPDU(io.MultiReader(bytes.NewReader(b[:min(len(b), commonLength)]), host))
		assert.LessOrEqual(t, host.read, commonLength+dataLength+hostDataMax, "a header makes the drive read without end")
	})
}
