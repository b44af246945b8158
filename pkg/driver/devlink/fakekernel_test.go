package devlink

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/mdlayher/genetlink"
	"github.com/mdlayher/genetlink/genltest"
	"github.com/mdlayher/netlink"
	"github.com/stretchr/testify/require"
)

// adapter is what a fake kernel keeps of its only adapter, in a file: the process of the driver and that of the tool share
// it.
type adapter struct {
	Handle, Serial, BoardSerial string
	// Board is the name and the value of the fixed version; VersionName names the others.
	Board       [2]string
	VersionName string
	// Running and Stored are versions; Stored is empty when nothing else waits.
	Running, Stored string
	// Blind adapters do not report what they store.
	Blind bool
	// ForImages is the board images name.
	ForImages string
	// Switch says who manages the switch inside the card: "host" or "card"; empty for a card without one.
	Switch string
	Params []fakeParam
}

// fakeParam is the value of a parameter for one mode; numbers are those of the kernel.
type fakeParam struct {
	Name       string
	Kind, Mode uint8
	Value      string
	// Default is empty for one that is not reported, as before Linux 7.0.
	Default string
}

// boot is what a boot leaves of the adapter: the values that the kernel keeps are gone.
func (a adapter) boot() adapter {
	a.Running, a.Stored = a.holds(), ""
	for i, p := range a.Params {
		if p.Mode != 2 {
			a.Params[i].Value = p.Default
		}
	}
	return a
}

func (a adapter) holds() string {
	if a.Stored != "" {
		return a.Stored
	}
	return a.Running
}

// fakeKernel is a kernel that offers devlink. What is to go wrong is in files of its directory, whose names are the faults.
type fakeKernel struct {
	dir string

	mu        sync.Mutex
	listeners []*fakeConn
}

func newFakeKernel(t *testing.T, a adapter) *fakeKernel {
	t.Helper()
	k := &fakeKernel{dir: t.TempDir()}
	require.NoError(t, k.save(a))
	require.NoError(t, os.WriteFile(k.searchPath(), []byte("/lib/vendor\n"), 0o600))
	return k
}

func (k *fakeKernel) searchPath() string { return filepath.Join(k.dir, "path") }

func (k *fakeKernel) load() (a adapter, err error) {
	text, err := os.ReadFile(filepath.Join(k.dir, "adapter"))
	if err == nil {
		err = json.Unmarshal(text, &a)
	}
	return a, err
}

func (k *fakeKernel) save(a adapter) error {
	text, err := json.Marshal(a)
	if err != nil {
		return err
	}
	temp := filepath.Join(k.dir, "adapter.new")
	return errors.Join(os.WriteFile(temp, text, 0o600), os.Rename(temp, filepath.Join(k.dir, "adapter")))
}

func (k *fakeKernel) fault(name, text string) func(*testing.T) {
	return func(t *testing.T) { require.NoError(t, os.WriteFile(filepath.Join(k.dir, name), []byte(text), 0o600)) }
}

func (k *fakeKernel) faulty(name string) (text string, wrong bool) {
	content, err := os.ReadFile(filepath.Join(k.dir, name))
	return string(content), err == nil
}

// refusal is the answer to a command that the fault "refuse" makes the kernel refuse: an error number and a message.
func (k *fakeKernel) refusal() error {
	text, refuses := k.faulty("refuse")
	if !refuses {
		return nil
	}
	number, message, _ := strings.Cut(text, " ")
	errno, err := strconv.Atoi(number)
	if err != nil {
		return err
	}
	return refuse(syscall.Errno(errno), message)
}

// fakeConn is a connection to a fakeKernel.
type fakeConn struct {
	*genetlink.Conn
	kernel *fakeKernel
	events chan genetlink.Message
	closed chan struct{}
}

const configGroup = 7

func (k *fakeKernel) dial() (Conn, error) {
	c := &fakeConn{kernel: k, events: make(chan genetlink.Message, 64), closed: make(chan struct{})}
	groups := []genetlink.MulticastGroup{{ID: 6, Name: "other"}, {ID: configGroup, Name: "config"}}
	family := genetlink.Family{ID: 22, Name: "devlink", Version: 1, Groups: groups}
	c.Conn = genltest.Dial(genltest.ServeFamily(family, c.answer))
	return c, nil
}

func (c *fakeConn) JoinGroup(group uint32) error {
	if group != configGroup {
		return syscall.EINVAL
	}
	c.kernel.mu.Lock()
	defer c.kernel.mu.Unlock()
	c.kernel.listeners = append(c.kernel.listeners, c)
	return nil
}

func (c *fakeConn) Close() error {
	close(c.closed)
	return nil
}

// refuse is an answer with an extended acknowledgement.
func refuse(errno syscall.Errno, message string) error {
	return &netlink.OpError{Op: "receive", Err: errno, Message: message}
}

// request is what a message asks for; attributes are the numbers of the kernel.
type request struct {
	handle          Handle
	file, component string
	action          uint8
	param           fakeParam
	data            []byte
}

func parseRequest(data []byte) (r request, err error) {
	ad, err := netlink.NewAttributeDecoder(data)
	if err != nil {
		return r, err
	}
	for ad.Next() {
		switch ad.Type() {
		case 1:
			r.handle.Bus = ad.String()
		case 2:
			r.handle.Device = ad.String()
		case 122:
			r.file = ad.String()
		case 123:
			r.component = ad.String()
		case 81:
			r.param.Name = ad.String()
		case 83:
			r.param.Kind = ad.Uint8()
		case 86:
			r.data = append([]byte{}, ad.Bytes()...)
		case 87:
			r.param.Mode = ad.Uint8()
		case 153:
			r.action = ad.Uint8()
		default: // 152 would overwrite settings or identifiers
			return r, fmt.Errorf("attribute %d must not be sent", ad.Type())
		}
	}
	return r, ad.Err()
}

// answer plays the kernel.
func (c *fakeConn) answer(m genetlink.Message, n netlink.Message) ([]genetlink.Message, error) {
	if n.Header.Type == 0 {
		select {
		case e := <-c.events:
			return []genetlink.Message{e}, nil
		case <-c.closed:
			return nil, net.ErrClosed
		}
	}
	r, err := parseRequest(m.Data)
	if err != nil {
		return nil, err
	}
	a, err := c.kernel.load()
	if _, gone := c.kernel.faulty("gone"); gone || err != nil || r.handle.String() != a.Handle {
		return nil, refuse(syscall.ENODEV, "")
	}
	if acknowledge := n.Header.Flags&netlink.Acknowledge != 0; acknowledge != (m.Header.Command == 58 || m.Header.Command == 39) {
		return nil, fmt.Errorf("command %d, acknowledgement asked for: %t", m.Header.Command, acknowledge)
	}
	switch m.Header.Command {
	case 29:
		return c.kernel.eswitch(a)
	case 38:
		if n.Header.Flags&netlink.Dump != netlink.Dump {
			return nil, refuse(syscall.EINVAL, "fake: not asked for all parameters")
		}
		return c.kernel.params(a), nil
	case 39:
		return nil, c.kernel.setParam(a, r)
	case 51:
		return c.kernel.info(a)
	case 58:
		return nil, c.kernel.flash(a, r)
	case 37:
		return c.kernel.reload(a, r)
	}
	return nil, refuse(syscall.EOPNOTSUPP, "")
}

// eswitch answers as mlx5_core does: only the manager of the switch inside the card may read its mode.
func (k *fakeKernel) eswitch(a adapter) ([]genetlink.Message, error) {
	switch a.Switch {
	case "host":
		data := encode(a.Handle, func(ae *netlink.AttributeEncoder) { ae.Uint16(25, 0) })
		return []genetlink.Message{{Header: genetlink.Header{Command: 29}, Data: data}}, nil
	case "card":
		return nil, refuse(syscall.EPERM, "")
	}
	return nil, refuse(syscall.EOPNOTSUPP, "")
}

func encode(h string, more func(*netlink.AttributeEncoder)) []byte {
	ae := netlink.NewAttributeEncoder()
	bus, device, _ := strings.Cut(h, "/")
	ae.String(1, bus)
	ae.String(2, device)
	more(ae)
	data, err := ae.Encode()
	if err != nil {
		panic(err)
	}
	return data
}

func version(ae *netlink.AttributeEncoder, group uint16, name, value string) {
	ae.Nested(group, func(nae *netlink.AttributeEncoder) error {
		nae.String(103, name)
		nae.String(104, value)
		return nil
	})
}

func (k *fakeKernel) info(a adapter) ([]genetlink.Message, error) {
	data := encode(a.Handle, func(ae *netlink.AttributeEncoder) {
		ae.String(98, "fake")
		if a.Serial != "" {
			ae.String(99, a.Serial)
		}
		if a.BoardSerial != "" {
			ae.String(146, a.BoardSerial)
		}
		if a.Board[0] != "" {
			version(ae, 100, a.Board[0], a.Board[1])
		}
		version(ae, 101, "fw.psid", "the version of something")
		version(ae, 101, a.VersionName, a.Running)
		if !a.Blind {
			version(ae, 102, a.VersionName, a.holds())
		}
	})
	if text, garbage := k.faulty("garbage"); garbage {
		data = []byte(text)
	}
	return []genetlink.Message{{Header: genetlink.Header{Command: 51}, Data: data}}, nil
}
