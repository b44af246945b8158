package nvmetcp

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest/nvmectrl"
)

const blockShift = 9

// storage is the content of the namespace.
type storage interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Sync() error
}

func openStorage(c Config) (storage, error) {
	if c.NamespaceFile == "" {
		return &memory{content: make([]byte, c.NamespaceSize)}, nil
	}
	file, err := os.OpenFile(c.NamespaceFile, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open namespace: %w", err)
	}
	if err := file.Truncate(c.NamespaceSize); err != nil {
		return nil, errors.Join(fmt.Errorf("open namespace: %w", err), file.Close())
	}
	return file, nil
}

// memory is a namespace whose content a power cut clears.
type memory struct {
	mu      sync.Mutex
	content []byte
}

func (m *memory) ReadAt(p []byte, at int64) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return copy(p, m.content[at:]), nil
}

func (m *memory) WriteAt(p []byte, at int64) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return copy(m.content[at:], p), nil
}

func (*memory) Close() error { return nil }
func (*memory) Sync() error  { return nil }

// io executes a command of an I/O queue.
func (d *Drive) io(t *task) completion {
	if t.opcode() != opFlush && t.opcode() != opRead && t.opcode() != opWrite {
		return failed(nvmectrl.InvalidOpcode)
	}
	if n := t.namespace(); n != namespaceID && (t.opcode() != opFlush || n != allNamespaces) {
		return failed(InvalidNamespace)
	}
	if t.opcode() == opFlush {
		return d.stored(d.space.Sync())
	}
	first, blocks := t.long(40), uint64(t.dword(12)&0xffff)+1
	total, length := uint64(d.config.NamespaceSize)>>blockShift, blocks<<blockShift
	switch {
	case first >= total || blocks > total-first:
		return failed(OutOfRange)
	case length != uint64(t.dataLength()):
		return failed(DataLengthInvalid)
	}
	at := int64(first << blockShift)
	if t.opcode() == opWrite {
		_, err := d.space.WriteAt(t.data, at)
		return d.stored(err)
	}
	data := make([]byte, length)
	_, err := d.space.ReadAt(data, at)
	done := d.stored(err)
	done.data = data
	return done
}

func (d *Drive) stored(err error) completion {
	if err != nil {
		d.config.Log.Error("Could not reach the namespace", "error", err)
		return failed(nvmectrl.InternalError)
	}
	return completion{}
}
