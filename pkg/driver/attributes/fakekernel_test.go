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
	for pattern, content := range map[string]string{"*/attributes/pending_reboot": "0\n", "*/authentication/*/current_password": "\n"} {
		files, err := filepath.Glob(k.path(devices + pattern))
		require.NoError(t, err)
		for _, file := range files {
			require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
		}
	}
}

// Store plays the drivers dell-wmi-sysman, think-lmi and hp-bioscfg.
func (k fakeKernel) Store(name, value string) error {
	if _, err := fs.Stat(k, name); err != nil {
		return err
	}
	value = strings.TrimSuffix(value, "\n")
	shown := value
	if path.Base(name) == "current_password" && value != "" {
		shown = "(password)"
	}
	if err := k.log(strings.TrimPrefix(name, devices) + " " + shown); err != nil {
		return err
	}
	dir := path.Dir(path.Dir(name)) // attributes, or authentication
	switch path.Base(name) {
	case "current_password":
		if text, fails := k.faulty("forgets-not"); fails && value == "" {
			return errors.New(text)
		}
		return k.put(name, value+"\n")
	case "save_settings":
		return k.save(name, value)
	case "current_value":
		return k.set(path.Dir(dir), path.Dir(name), value)
	}
	return syscall.EACCES
}

// save plays save_settings_store.
func (k fakeKernel) save(name, value string) error {
	switch {
	case !slices.Contains([]string{"single", "bulk", "save"}, value):
		return syscall.EINVAL
	case value != "save":
		return k.put(name, value+"\n")
	case k.get(name) != "bulk":
		return syscall.EOPNOTSUPP
	}
	return nil
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
	if _, late := k.faulty("late"); !late {
		err = k.put(dir+"/current_value", value+"\n")
	}
	if pending := of + "/attributes/pending_reboot"; k.get(pending) != "" {
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
