package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// writeCache is the one setting of a drive. It is On until it is told otherwise, and what it is told is in force after a reset.
const writeCache = "WriteCache"

// The memory of the setting: what is in force, and what is after a reset. A file that is missing or empty says nothing.
const (
	cacheFile       = "cache"
	stagedCacheFile = "cache-staged"
)

var _ driver.Configurer = drives{}

// Parameters reads the setting.
func (d drives) Parameters(_ context.Context, id inventory.Identity, names ...string) ([]inventory.Parameter, error) {
	if _, _, err := d.read(id); err != nil { // a drive that does not answer has no settings to show
		return nil, err
	}
	p := inventory.Parameter{
		Name: writeCache, Default: inventory.Read("On"), Domain: inventory.Domain{Values: []string{"Off", "On"}}, Needs: inventory.ActivateDeviceReset,
	}
	var err error
	if p.Current, err = d.value(id, cacheFile, p.Default); err == nil {
		p.Next, err = d.value(id, stagedCacheFile, p.Current)
	}
	if err != nil {
		return nil, err
	}
	return inventory.Asked([]inventory.Parameter{p}, names...), nil
}

func (d drives) value(id inventory.Identity, file string, otherwise inventory.Reading) (inventory.Reading, error) {
	path, err := d.file(id, file)
	if err != nil {
		return inventory.Reading{}, err
	}
	text, err := os.ReadFile(path)
	switch value := strings.TrimSpace(string(text)); {
	case errors.Is(err, fs.ErrNotExist), err == nil && value == "":
		return otherwise, nil
	case err != nil:
		return inventory.Reading{}, fmt.Errorf("read settings of drive %s: %w", id.UniqueID, err)
	default:
		return inventory.Read(value), nil
	}
}

// CheckConfiguration compares the values with what the drive takes.
func (d drives) CheckConfiguration(ctx context.Context, id inventory.Identity, c driver.Configuration) error {
	all, err := d.Parameters(ctx, id)
	if err != nil {
		return err
	}
	return c.Check(all)
}

// Configure stores the value, unless the drive does already.
func (d drives) Configure(ctx context.Context, id inventory.Identity, c driver.Configuration) (inventory.Activation, error) {
	all, err := d.Parameters(ctx, id)
	if err == nil {
		err = c.Check(all)
	}
	if err != nil {
		return 0, err
	}
	needs := inventory.NeededFor(c.Set, all)
	for _, s := range inventory.Differing(c.Set, all) {
		if err := d.unlocked(id); err != nil {
			return 0, err
		}
		path, err := d.file(id, stagedCacheFile)
		if err == nil {
			d.wait(id)
			err = os.WriteFile(path, []byte(s.Value), 0o600)
		}
		if err != nil {
			return 0, fmt.Errorf("set %s of drive %s: %w", s.Name, id.UniqueID, err)
		}
	}
	return needs, nil
}
