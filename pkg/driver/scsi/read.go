package scsi

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

type state struct {
	inquiry
	// Serial is empty for a drive without a Unit Serial Number page.
	Serial string
	modes  modes
}

// read queries the drive. It checks that the device node still belongs to the same drive: names move to another drive
// when one is pulled and another plugged in.
func (d *Driver) read(ctx context.Context, id inventory.Identity) (state, error) {
	if id.Node == "" {
		return state{}, fmt.Errorf("find drive %s: the kernel has no device for it", id.UniqueID)
	}
	var s state
	var err error
	if s.inquiry, err = ask(ctx, d, standardInquiry(device(id)), parseInquiry); err != nil {
		return state{}, fmt.Errorf("inquire %s: %w", device(id), err)
	}
	if s.Serial, err = optional(ctx, d, serialPage(device(id)), parseSerial); err != nil {
		return state{}, fmt.Errorf("read serial number of %s: %w", device(id), err)
	}
	if s.Serial != "" && id.SerialNumber != "" && s.Serial != id.SerialNumber {
		return state{}, fmt.Errorf("find drive %s: %s is another drive now, with serial number %s instead of %s: scan again",
			id.UniqueID, device(id), s.Serial, id.SerialNumber)
	}
	for _, m := range []struct {
		mode  mode
		takes *bool
	}{{modeSave, &s.modes.Save}, {modeDefer, &s.modes.Defer}, {modeActivate, &s.modes.Activate}} {
		if *m.takes, err = optional(ctx, d, supports(device(id), m.mode), parseSupport); err != nil {
			return state{}, fmt.Errorf("ask %s for WRITE BUFFER mode %s: %w", device(id), m.mode, err)
		}
	}
	return s, nil
}

// run runs a command, and once more if the drive answered with a unit attention. A drive that was reset or changed its
// microcode reports that on the next command instead of executing it. A repeated download begins with its first byte.
func (d *Driver) run(ctx context.Context, c command.Command) (command.Result, error) {
	r, err := d.runner.Run(ctx, c)
	if err == nil && r.ExitCode == exitUnitAttention {
		return d.runner.Run(ctx, c)
	}
	return r, err
}

func ask[T any](ctx context.Context, d *Driver, c command.Command, parse func([]byte) (T, error)) (T, error) {
	var none T
	r, err := d.run(ctx, c)
	if err != nil {
		return none, err
	}
	if r.ExitCode != 0 {
		return none, classify(c, r)
	}
	v, err := parse(r.Stdout)
	if err != nil {
		return none, command.Failed(c, r, err)
	}
	return v, nil
}

// optional is ask for something a drive may lack: it returns the zero value when the drive does not support the query.
func optional[T any](ctx context.Context, d *Driver, c command.Command, parse func([]byte) (T, error)) (T, error) {
	v, err := ask(ctx, d, c, parse)
	var failed *command.Error
	if errors.As(err, &failed) && slices.Contains([]int{exitIllegalRequest, exitInvalidOpcode, exitNoPage}, failed.ExitCode) {
		return v, nil
	}
	return v, err
}
