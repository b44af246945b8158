package guest

import (
	"encoding/json"
	"fmt"
	"os"
)

// Files and names shared by the lab and its guest.
const (
	// ConfigPath is the guest's Config as JSON.
	ConfigPath = "/etc/lab/guest.json"
	// StateDir is on the disk that outlives a reboot.
	StateDir = "/var/lib/lab"
	// AgentPort is where the agent listens.
	AgentPort = 7000
	// DaemonLog receives the daemon's output.
	DaemonLog = StateDir + "/daemon.log"
)

// Config is the configuration of a guest.
type Config struct {
	// Modules are loaded at the start, in this order.
	Modules []Module
	// Address of the only network interface, with its length: "10.0.2.15/24". There is no route beyond it.
	Address string
	// StateDisk is the block device with the file system for StateDir and what else survives reboots.
	StateDisk string
	// Persistent are directories that are kept on the state disk.
	Persistent []string
	// Flash is what the emulated devices keep without power.
	Flash []Flash
	// Drives are plugged in by the agent on request of the lab, and at every boot after that.
	Drives []Drive
	// Services run all the time, and are started again when they end.
	Services []Service
}

// Module is a kernel module.
type Module struct {
	Path string
	// Parameters as insmod takes them. "{NAME}" is replaced by what the flash of that name holds.
	Parameters string
	// Deferred modules are loaded by the agent on request of the lab, and at every boot after that.
	Deferred bool
	// After are written once the module is loaded: some make their devices then.
	After []Write
}

// Write is a value for a file of sysfs or debugfs.
type Write struct{ Path, Value string }

// Flash is one value that an emulated device keeps: it is read from the device while it runs and given back to its module
// when the machine boots.
type Flash struct {
	Name string
	// Default is the initial value.
	Default string
	// Source is the file the device shows it in.
	Source string
}

// Service is a program that runs all the time.
type Service struct {
	Name string
	Argv []string
	Log  string
}

// LoadConfig reads the configuration of this guest.
func LoadConfig(path string) (Config, error) {
	var c Config
	raw, err := os.ReadFile(path)
	if err != nil {
		return c, fmt.Errorf("read guest configuration: %w", err)
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		return c, fmt.Errorf("parse guest configuration: %w", err)
	}
	return c, nil
}
