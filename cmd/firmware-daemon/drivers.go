package main

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/nodefirmware/node-firmware-operator/internal/config"
	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/fwupd"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/mstflint"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/nvme"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/profile"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/scsi"
)

// builtin are the drivers that are part of the daemon.
func builtin(runner command.Runner, root fs.FS) driver.Set {
	return driver.Set{mstflint.New(runner), nvme.New(runner), scsi.New(runner), fwupd.New(runner, root)}
}

// driversOf loads the profiles of the machine and makes all drivers of the daemon: those that are part of it and one of
// each profile.
func driversOf(m config.Machine) (func(command.Runner, fs.FS) driver.Set, error) {
	if m.ProfileDir == "" {
		return builtin, nil
	}
	profiles, err := profile.LoadDir(m.ProfileDir)
	if err != nil {
		return nil, err
	}
	var problems []error
	for _, p := range profiles {
		for _, d := range builtin(nil, nil) {
			if d.Name() == p.Name {
				problems = append(problems, fmt.Errorf("profile %q in %s has the name of a driver of the daemon: give it another", p.Name, m.ProfileDir))
			}
		}
	}
	return func(runner command.Runner, root fs.FS) driver.Set {
		all := builtin(runner, root)
		for _, p := range profiles {
			all = append(all, profile.New(runner, p))
		}
		return all
	}, errors.Join(problems...)
}
