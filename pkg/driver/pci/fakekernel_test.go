package pci

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs/sysfstest"
)

const devices = "sys/bus/pci/devices"

// fakeKernel is a machine in a directory, whose attributes of SR-IOV behave as those of Linux do. The process of the driver and that of the
// tool share it. What is to go wrong is in files of faults/, whose names are the faults.
type fakeKernel struct{ sysfs.Tree }

func kernelIn(dir string) fakeKernel { return fakeKernel{sysfs.DirFS(dir)} }

// pf is a physical function of a fakeKernel.
type pf struct {
	address string
	// total is empty for one without SR-IOV.
	total, driver string
}

func newFakeKernel(t *testing.T, functions ...pf) fakeKernel {
	t.Helper()
	m := sysfstest.NewMachine()
	for _, f := range functions {
		m.PCI(sysfstest.Function{Address: f.address, Vendor: "8086", Device: "1521", Class: "020000", Driver: f.driver})
	}
	k := kernelIn(t.TempDir())
	require.NoError(t, os.CopyFS(k.Dir(), m))
	require.NoError(t, os.MkdirAll(k.path("faults"), 0o700))
	for _, f := range functions {
		if f.total != "" {
			require.NoError(t, k.offer(f.address, f.total))
		}
	}
	return k
}

func (k fakeKernel) path(name string) string { return filepath.Join(k.Dir(), name) }

func (k fakeKernel) put(name, content string) error {
	return os.WriteFile(k.path(name), []byte(content), 0o600)
}

func (k fakeKernel) get(name string) string {
	content, _ := fs.ReadFile(k, name)
	return strings.TrimSpace(string(content))
}

func (k fakeKernel) fault(name, text string) func(*testing.T) {
	return func(t *testing.T) { require.NoError(t, k.put("faults/"+name, text)) }
}

func (k fakeKernel) faulty(name string) (text string, wrong bool) {
	content, err := os.ReadFile(k.path("faults/" + name))
	return string(content), err == nil
}

// offer is what the kernel does with a function that can have virtual ones, when it finds it at a boot.
func (k fakeKernel) offer(address, total string) error {
	var errs []error
	for name, content := range map[string]string{"sriov_totalvfs": total, numVFs: "0", autoprobe: "1"} {
		errs = append(errs, k.put(path.Join(devices, address, name), content+"\n"))
	}
	return errors.Join(append(errs, k.makeVFs(path.Join(devices, address), 0))...)
}

// boot empties what only the kernel keeps.
func (k fakeKernel) boot() error {
	var errs []error
	files, err := filepath.Glob(k.path(devices + "/*/sriov_totalvfs"))
	for _, file := range files {
		address := filepath.Base(filepath.Dir(file))
		errs = append(errs, k.offer(address, k.get(path.Join(devices, address, "sriov_totalvfs"))))
	}
	return errors.Join(append(errs, err)...)
}

// misbehave plays the faults of a write; done says that nothing is left to do.
func (k fakeKernel) misbehave() (done bool, err error) {
	if text, fails := k.faulty("fail"); fails {
		return true, errors.New(text)
	}
	if _, hangs := k.faulty("hang"); hangs {
		if err := k.put("faults/hangs", ""); err != nil {
			return true, err
		}
		for hangs {
			time.Sleep(5 * time.Millisecond) // sleeps: plays a kernel that takes its time
			_, hangs = k.faulty("hang")
		}
	}
	_, lies := k.faulty("lie")
	return lies, nil
}

// Store plays sriov_numvfs_store and sriov_drivers_autoprobe_store (drivers/pci/iov.c).
func (k fakeKernel) Store(name, value string) error {
	if done, err := k.misbehave(); done || err != nil {
		return err
	}
	if k.get(name) == "" {
		return syscall.ENOENT
	}
	dir := path.Dir(name)
	n, err := strconv.ParseUint(strings.TrimSuffix(value, "\n"), 0, 16)
	total, _ := strconv.ParseUint(k.get(path.Join(dir, "sriov_totalvfs")), 10, 16)
	switch now := k.get(name); {
	case err != nil:
		return syscall.EINVAL
	case path.Base(name) == autoprobe:
		return k.put(name, fmt.Sprintln(min(n, 1)))
	case path.Base(name) != numVFs:
		return syscall.EACCES
	case n > total:
		return syscall.ERANGE
	case now == strconv.FormatUint(n, 10):
		return nil
	case now != "0" && n != 0:
		return syscall.EBUSY
	}
	if text, refuses := k.faulty("refuse"); refuses && n != 0 && text == strconv.FormatUint(n, 10) {
		return syscall.ENOSPC
	}
	if text, few := k.faulty("few"); few {
		most, err := strconv.ParseUint(text, 10, 16)
		if err != nil {
			return err
		}
		n = min(n, most)
	}
	return errors.Join(k.makeVFs(dir, int(n)), k.put(name, fmt.Sprintln(n)))
}

// express gives a function a configuration space with the capability of PCI Express behind another one, and the limit that it has after a boot.
func (k fakeKernel) express(t *testing.T, address string) {
	t.Helper()
	config := make([]byte, 4096)
	config[0x06], config[0x34] = 0x10, 0x40
	config[0x40], config[0x41] = 0x01, 0x60
	config[0x60], config[0x68], config[0x69] = 0x10, 0x36, 0x29 // 512 bytes, and bits that are not the limit's
	require.NoError(t, k.put(path.Join(devices, address, "config"), string(config)))
}

// readRequest is the register of a function, without its bits for the limit, and these as the size that they stand for.
func (k fakeKernel) readRequest(t *testing.T, address string) (rest, size int) {
	t.Helper()
	config, err := os.ReadFile(k.path(path.Join(devices, address, "config")))
	require.NoError(t, err)
	register := int(config[0x68]) | int(config[0x69])<<8
	return register &^ 0x7000, 128 << (register >> 12 & 7)
}

// StoreAt plays pci_write_config (drivers/pci/pci-sysfs.c).
func (k fakeKernel) StoreAt(name string, offset int64, data []byte) error {
	if done, err := k.misbehave(); done || err != nil {
		return err
	}
	if _, locked := k.faulty("locked"); locked {
		return syscall.EPERM
	}
	return k.Tree.StoreAt(name, offset, data)
}

// makeVFs gives a function its virtual functions, beside it on its bus. They have drivers if they are to be probed.
func (k fakeKernel) makeVFs(dir string, n int) error {
	real, err := filepath.EvalSymlinks(k.path(dir))
	if err != nil {
		return err
	}
	links, err := filepath.Glob(filepath.Join(real, "virtfn*"))
	for _, link := range links {
		target, _ := filepath.EvalSymlinks(link)
		err = errors.Join(err, os.RemoveAll(target), os.Remove(link))
	}
	for i := range n {
		slot := 1 + i/8
		if strings.HasSuffix(dir, ".1") {
			slot += 8
		}
		vf := fmt.Sprintf("%s%02x.%d", path.Base(dir)[:8], slot, i%8)
		at := filepath.Join(filepath.Dir(real), vf)
		err = errors.Join(err, os.MkdirAll(at, 0o700))
		if k.get(path.Join(dir, autoprobe)) == "1" {
			err = errors.Join(err, os.MkdirAll(filepath.Join(at, "net", "eth"+vf), 0o700), os.Symlink("../../bus/pci/drivers/iavf", filepath.Join(at, "driver")))
		}
		err = errors.Join(err, os.Symlink("../"+vf, filepath.Join(real, "virtfn"+strconv.Itoa(i))))
	}
	return err
}

// firmware is a tool of an adapter that keeps how many virtual functions the adapter can have, in a file of the fakeKernel.
func (k fakeKernel) firmware(args []string, stderr io.Writer) int {
	done, err := k.misbehave()
	if err == nil && !done {
		err = k.put("nv.next", args[0])
	}
	if err != nil {
		_, _ = fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}
