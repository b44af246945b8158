package devlink

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/mdlayher/genetlink"
	"github.com/mdlayher/netlink"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// find reads an image as the kernel does: where the parameter says first.
func (k *fakeKernel) find(name string) (string, error) {
	dir, err := os.ReadFile(k.searchPath())
	if err != nil {
		return "", err
	}
	content, err := os.ReadFile(filepath.Join(string(bytes.TrimRight(dir, "\n\x00")), name))
	return string(content), err
}

func (k *fakeKernel) flash(a adapter, r request) error {
	content, err := k.find(r.file)
	if err != nil {
		return refuse(syscall.ENOENT, "failed to locate the requested firmware file")
	}
	k.notify(a.Handle, 58, nil)
	defer k.notify(a.Handle, 59, nil)
	if text, fails := k.faulty("fail"); fails {
		return refuse(syscall.EIO, text)
	}
	if err := k.refusal(); err != nil {
		return err
	}
	fields := strings.SplitN(content, "\n", 4)
	if len(fields) < 4 || content != string(drivertest.ImageBytes(fields[1], inventory.Version(fields[2]))) {
		return refuse(syscall.EBADMSG, "fake: Checksum of the image is wrong")
	}
	if fields[1] != a.ForImages {
		return refuse(syscall.EINVAL, "fake: No image for this board in the file")
	}
	k.notify("pci/0000:99:00.0", 60, progress("Flashing", 99, 100))
	k.notify(a.Handle, 60, progress("Preparing to flash", 0, 0))
	k.notify(a.Handle, 60, progress("Flashing", 0, 500000))
	if err := k.hang(); err != nil {
		return err
	}
	k.notify(a.Handle, 60, progress("Flashing", 210000, 500000))
	k.notify(a.Handle, 60, func(ae *netlink.AttributeEncoder) {
		ae.String(124, "Flash select")
		ae.String(123, r.component)
		ae.Uint64(151, 81)
	})
	if _, lies := k.faulty("lie"); !lies {
		if a.Stored = fields[2]; a.Stored == a.Running {
			a.Stored = ""
		}
		if err := k.save(a); err != nil {
			return err
		}
	}
	return io.EOF
}

// hang plays a device that takes its time.
func (k *fakeKernel) hang() error {
	for _, hangs := k.faulty("hang"); hangs; _, hangs = k.faulty("hang") {
		if err := os.WriteFile(filepath.Join(k.dir, "hangs"), nil, 0o600); err != nil {
			return err
		}
		time.Sleep(5 * time.Millisecond) // sleeps: plays a device that takes its time
	}
	return nil
}

func progress(message string, done, total uint64) func(*netlink.AttributeEncoder) {
	return func(ae *netlink.AttributeEncoder) {
		ae.String(124, message)
		ae.Uint64(125, done)
		ae.Uint64(126, total)
		ae.Uint64(151, 0)
	}
}

// notify sends a message to all listeners.
func (k *fakeKernel) notify(handle string, cmd uint8, more func(*netlink.AttributeEncoder)) {
	if more == nil {
		more = func(*netlink.AttributeEncoder) {}
	}
	m := genetlink.Message{Header: genetlink.Header{Command: cmd}, Data: encode(handle, more)}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range k.listeners {
		select {
		case c.events <- m:
		case <-c.closed:
		}
	}
}

func (k *fakeKernel) reload(a adapter, r request) ([]genetlink.Message, error) {
	if r.action == 1 {
		if err := k.refusal(); err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(k.dir, "reloaded"), nil, 0o600); err != nil {
			return nil, err
		}
		data := encode(a.Handle, func(*netlink.AttributeEncoder) {})
		return []genetlink.Message{{Header: genetlink.Header{Command: 37}, Data: data}}, nil
	}
	if text, refuses := k.faulty("no-reset"); refuses {
		if text != "" {
			return nil, refuse(syscall.ECANCELED, text)
		}
		return nil, refuse(syscall.EOPNOTSUPP, "Requested reload action is not supported by the driver")
	}
	if err := k.refusal(); err != nil {
		return nil, err
	}
	if r.action != 2 {
		return nil, refuse(syscall.EINVAL, "fake: not asked to activate firmware")
	}
	if _, lies := k.faulty("lie"); !lies {
		a.Running, a.Stored = a.holds(), ""
	}
	data := encode(a.Handle, func(*netlink.AttributeEncoder) {})
	return []genetlink.Message{{Header: genetlink.Header{Command: 37}, Data: data}}, k.save(a)
}
