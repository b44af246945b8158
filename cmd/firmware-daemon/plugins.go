package main

import (
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/nodefirmware/node-firmware-operator/internal/config"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/plugin"
)

// pluginsOf returns the plugin directory of a machine; nil for none. Record says whether the plugins' infos are
// recorded for the next start.
func pluginsOf(m config.Machine, log *slog.Logger, record pluginMemory) (*plugin.Directory, error) {
	dir := m.Plugins()
	if dir == "" {
		return nil, nil
	}
	profiles, err := profilesOf(m)
	if err != nil {
		return nil, err
	}
	var others []string
	for _, d := range builtin(nil, nil, true, "") {
		others = append(others, d.Name())
	}
	for _, p := range profiles {
		others = append(others, p.Name)
	}
	d := plugin.New(plugin.Config{
		Dir: dir, Reserved: others, Disabled: m.DisabledDrivers, Memory: filepath.Join(m.StateDir, "plugins.json"),
		Record: record == rememberPlugins, Log: log,
	})
	if err := d.Validate(); err != nil {
		return nil, fmt.Errorf("--plugin-dir: %w", err)
	}
	return d, nil
}

// pluginMemory says whether a command records the infos of plugins.
type pluginMemory int

const (
	rememberPlugins pluginMemory = iota
	forgetPlugins
)

// withoutPlugins returns the names that are not those of installed plugins.
func withoutPlugins(names []string, m config.Machine) []string {
	var out []string
	for _, name := range names {
		info, err := os.Lstat(filepath.Join(m.Plugins(), filepath.Base(name)+".sock"))
		if m.Plugins() == "" || err != nil || info.Mode().Type() != fs.ModeSocket {
			out = append(out, name)
		}
	}
	return out
}
