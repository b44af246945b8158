package attributes

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
)

// fakeKernel is a machine in a directory, whose firmware-attributes behave as those of Linux do. The process of the driver and that of the tool
// share it. What is to go wrong is in files of faults/, whose names are the faults, and what the firmware runs in running/.
type fakeKernel struct{ sysfs.Tree }

func kernelIn(dir string) fakeKernel { return fakeKernel{sysfs.DirFS(dir)} }

// attribute are the files of a setting.
type attribute map[string]string

func enumeration(value, standard, possible string) attribute {
	return attribute{"type": "enumeration", "current_value": value, "default_value": standard, "possible_values": possible}
}

func newFakeKernel(t *testing.T) fakeKernel {
	t.Helper()
	k := kernelIn(t.TempDir())
	for _, dir := range []string{"faults", "running", "sys/class/firmware-attributes"} {
		require.NoError(t, os.MkdirAll(k.path(dir), 0o700))
	}
	return k
}

const devices = "sys/devices/virtual/firmware-attributes/"

// show adds an interface with its settings.
func (k fakeKernel) show(t *testing.T, of string, settings map[string]attribute) {
	t.Helper()
	dir := devices + of
	require.NoError(t, os.MkdirAll(k.path(dir+"/attributes"), 0o700))
	require.NoError(t, os.Symlink("../../devices/virtual/firmware-attributes/"+of, k.path("sys/class/firmware-attributes/"+of)))
	require.NoError(t, k.put(dir+"/attributes/pending_reboot", "0\n"))
	require.NoError(t, k.put(dir+"/attributes/debug_cmd", ""))
	for name, files := range settings {
		require.NoError(t, os.Mkdir(k.path(dir+"/attributes/"+name), 0o700))
		for file, content := range files {
			require.NoError(t, k.put(path.Join(dir, "attributes", name, file), content+"\n"))
		}
		require.NoError(t, k.put("running/"+name, files["current_value"]))
	}
}

// protect sets a password, or another proof that changes need.
func (k fakeKernel) protect(t *testing.T, of, name, role, mechanism, password string) {
	t.Helper()
	dir := devices + of + "/authentication/" + name
	require.NoError(t, os.MkdirAll(k.path(dir), 0o700))
	for file, content := range map[string]string{
		"is_enabled": "1", "role": role, "mechanism": mechanism, "current_password": "", "secret": password,
	} {
		require.NoError(t, k.put(path.Join(dir, file), content+"\n"))
	}
}

func (k fakeKernel) path(name string) string { return filepath.Join(k.Dir(), name) }

func (k fakeKernel) put(name, content string) error {
	return os.WriteFile(k.path(name), []byte(content), 0o600)
}

func (k fakeKernel) get(name string) string {
	content, _ := fs.ReadFile(k, name)
	return strings.TrimSpace(string(content))
}

func (k fakeKernel) value(of, name string) string {
	return k.get(devices + of + "/attributes/" + name + "/current_value")
}

func (k fakeKernel) fault(name, text string) func(*testing.T) {
	return func(t *testing.T) {
		t.Helper()
		require.NoError(t, k.put("faults/"+name, text))
	}
}

func (k fakeKernel) faulty(name string) (text string, wrong bool) {
	content, err := os.ReadFile(k.path("faults/" + name))
	return string(content), err == nil
}

// log notes what was told to the kernel, in order.
func (k fakeKernel) log(line string) error {
	return k.put("log", strings.TrimPrefix(k.get("log")+"\n"+line+"\n", "\n"))
}

// boot has the firmware run what it stores, except for a setting that it forgets; the memory of the kernel is gone.
func (k fakeKernel) boot(t *testing.T) {
	t.Helper()
	files, err := filepath.Glob(k.path(devices + "*/attributes/*/current_value"))
	require.NoError(t, err)
	forgotten, _ := k.faulty("forget")
	for _, file := range files {
		name := filepath.Base(filepath.Dir(file))
		if name == forgotten {
			require.NoError(t, os.WriteFile(file, []byte(k.get("running/"+name)+"\n"), 0o600))
		}
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NoError(t, k.put("running/"+name, strings.TrimSpace(string(content))))
	}
	require.NoError(t, k.each(devices+"*/attributes/pending_reboot", "0\n"))
	require.NoError(t, k.each(devices+"*/authentication/*/current_password", "\n"))
	for _, memory := range []string{"saved", "unsaved"} {
		files, err := filepath.Glob(k.path(devices + "*/" + memory))
		require.NoError(t, err)
		for _, file := range files {
			require.NoError(t, os.RemoveAll(file))
		}
	}
}

// Store plays the drivers dell-wmi-sysman, think-lmi and hp-bioscfg.
func (k fakeKernel) Store(name, value string) error {
	if _, err := fs.Stat(k, name); err != nil {
		return err
	}
	of := path.Join(devices, strings.Split(strings.TrimPrefix(name, devices), "/")[0])
	if path.Base(name) == "current_password" {
		return k.tell(of, name, value)
	}
	value = strings.TrimSuffix(value, "\n")
	if err := k.log(strings.TrimPrefix(name, devices) + " " + value); err != nil {
		return err
	}
	switch path.Base(name) {
	case "save_settings":
		return k.save(of, name, value)
	case "current_value":
		err := k.set(of, path.Dir(name), value)
		if path.Base(of) == hp { // hp_clear_all_credentials
			err = errors.Join(err, k.each(of+"/authentication/*/current_password", "\n"))
		}
		return err
	}
	return syscall.EACCES
}

// tell plays current_password_store. Lenovo's counts the end of a line, HP's does not say that it takes no empty password, and that of Dell looks for
// the end of the line before an empty text.
func (k fakeKernel) tell(of, name, raw string) error {
	const least, most = 4, 16
	text, _, _ := strings.Cut(raw, "\x00")
	told := strings.TrimSuffix(text, "\n")
	shown := ""
	if told != "" {
		shown = " (password)"
	}
	if err := k.log(strings.TrimPrefix(name, devices) + shown); err != nil {
		return err
	}
	why, keeps := k.faulty("forgets-not")
	switch {
	case raw == "": // sysfs_kf_write does not call the driver
		return nil
	case keeps && told == "":
		return errors.New(why)
	case path.Base(of) == lenovo && text != "" && (len(text) < least || len(text) > most):
		return syscall.EINVAL
	case path.Base(of) == hp && (len(told) < least || len(told) > most):
		return nil
	case path.Base(of) == dell && text == "":
		return errors.New("the kernel read what was before the text")
	}
	return k.put(name, told+"\n")
}

// each writes files.
func (k fakeKernel) each(pattern, content string) error {
	files, err := filepath.Glob(k.path(pattern))
	for _, file := range files {
		err = errors.Join(err, os.WriteFile(file, []byte(content), 0o600))
	}
	return err
}

// save plays save_settings_store. The firmware may show what was stored in between only then; after it the driver wants a boot.
func (k fakeKernel) save(of, name, value string) error {
	switch {
	case !slices.Contains([]string{"single", "bulk", "save"}, value):
		return syscall.EINVAL
	case value != "save":
		return k.put(name, value+"\n")
	case k.get(name) != "bulk":
		return syscall.EOPNOTSUPP
	}
	if _, refuses := k.faulty("refuse-save"); refuses {
		return syscall.EACCES
	}
	unsaved, err := filepath.Glob(k.path(of + "/unsaved/*"))
	for _, file := range unsaved {
		content, failed := os.ReadFile(file)
		err = errors.Join(err, failed, os.Remove(file), k.put(of+"/attributes/"+filepath.Base(file)+"/current_value", string(content)))
	}
	if len(unsaved) == 0 {
		return syscall.ENOENT
	}
	return errors.Join(err, k.put(of+"/attributes/pending_reboot", "1\n"), k.put(of+"/saved", ""))
}

// set plays current_value_store of a setting.
func (k fakeKernel) set(of, dir, value string) error {
	if text, fails := k.faulty("fail"); fails {
		return errors.New(text)
	}
	if _, hangs := k.faulty("hang"); hangs {
		if err := k.put("faults/hangs", ""); err != nil {
			return err
		}
		for hangs {
			time.Sleep(5 * time.Millisecond) // sleeps: plays firmware that takes its time
			_, hangs = k.faulty("hang")
		}
	}
	if _, err := os.Stat(k.path(of + "/saved")); err == nil && k.get(of+"/attributes/save_settings") == "bulk" {
		return syscall.EPERM
	}
	ways, err := filepath.Glob(k.path(of + "/authentication/*/secret"))
	if err != nil {
		return err
	}
	for _, way := range ways {
		if told := k.get(path.Join(of, "authentication", filepath.Base(filepath.Dir(way)), "current_password")); told != readTrimmed(way) {
			return syscall.EACCES
		}
	}
	switch k.get(dir + "/type") {
	case "enumeration":
		if possible := k.get(dir + "/possible_values"); possible != "" && !slices.Contains(strings.Split(possible, ";"), value) {
			return syscall.EINVAL
		}
	case "integer":
		if _, err := strconv.ParseInt(value, 0, 64); err != nil {
			return syscall.EINVAL
		}
	case "ordered-list":
		value = strings.ReplaceAll(value, ";", ",") // as hp-bioscfg shows a list that was changed
	}
	if refused, refuses := k.faulty("refuse"); refuses && path.Base(dir) == refused {
		return syscall.EACCES
	}
	if text, rounds := k.faulty("round"); rounds {
		value = text
	}
	if _, lies := k.faulty("lie"); lies {
		return nil
	}
	if k.get(of+"/attributes/save_settings") == "bulk" {
		return errors.Join(os.MkdirAll(k.path(of+"/unsaved"), 0o700), k.put(of+"/unsaved/"+path.Base(dir), value+"\n"))
	}
	if _, late := k.faulty("late"); !late {
		err = k.put(dir+"/current_value", value+"\n")
	}
	if pending := of + "/attributes/pending_reboot"; k.get(pending) != "" && path.Base(of) != hp {
		err = errors.Join(err, k.put(pending, "1\n"))
	}
	return err
}

func readTrimmed(file string) string {
	content, _ := os.ReadFile(file)
	return strings.TrimSpace(string(content))
}

// many are settings of a machine that has a lot of them.
func many(n int) map[string]attribute {
	out := map[string]attribute{}
	for i := range n {
		out[fmt.Sprintf("Option%04d", i)] = enumeration("Disabled", "Enabled", "Disabled;Enabled")
	}
	return out
}
