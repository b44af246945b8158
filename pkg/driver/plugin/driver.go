package plugin

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/durable"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// How long a plugin may take. Writes have no deadline and are waited for until they end.
const (
	infoTimeout    = 10 * time.Second
	inspectTimeout = 25 * time.Second
	checkTimeout   = 5 * time.Minute
	settingTimeout = 5 * time.Minute
	archiveTimeout = 30 * time.Minute
)

// Driver is one plugin of a Directory, or a place for a future one.
type Driver struct {
	dir *Directory
	place
}

var (
	_ driver.Driver   = (*Driver)(nil)
	_ driver.Archiver = (*Driver)(nil)
	_ driver.Reverter = (*Driver)(nil)

	_ driver.MaybeConfigurer = (*Driver)(nil)
)

// Name is the plugin's name, empty while the place has no plugin.
func (d *Driver) Name() string {
	name, _, _ := d.now()
	return name
}

// Version is the version the plugin reported last.
func (d *Driver) Version() string {
	_, info, _ := d.now()
	return info.Version
}

// Support is the level of the plugin's matches. A plugin that is installed but does not run keeps its devices, so that
// no driver with less support for them writes them.
func (d *Driver) Support(id inventory.Identity) driver.Support {
	_, info, installed := d.now()
	if !installed {
		return driver.SupportNone
	}
	return info.Support(id)
}

// Inspect lets the plugin read the device. The identity from the kernel is kept.
func (d *Driver) Inspect(ctx context.Context, id inventory.Identity) (inventory.Identity, inventory.Firmware, error) {
	a, err := d.call(ctx, VerbInspect, Request{ID: id}, command.Command{Timeout: inspectTimeout})
	if err != nil {
		return id, inventory.Firmware{}, err
	}
	completed, err := d.complete(id, a.ID)
	if err != nil {
		return id, inventory.Firmware{}, fmt.Errorf("plugin %s: %w: %w", d.Name(), ErrInvalid, err)
	}
	return completed, a.Firmware, nil
}

// complete adds the plugin's values to an identity.
func (d *Driver) complete(kernel, said inventory.Identity) (inventory.Identity, error) {
	switch {
	case said.UniqueID == "":
		return kernel, errors.New("the device has no unique id")
	case said.Class != kernel.Class:
		return kernel, fmt.Errorf("the device is a %s, not a %s", kernel.Class, said.Class)
	}
	if before := d.identified(kernel.UniqueID, said.UniqueID); before != said.UniqueID {
		return kernel, fmt.Errorf("the device was %q before and is %q now; restart the daemon if it was replaced", before, said.UniqueID)
	}
	out := kernel
	out.UniqueID = said.UniqueID
	for _, field := range []struct{ to, from *string }{
		{&out.Vendor, &said.Vendor}, {&out.Model, &said.Model}, {&out.PartNumber, &said.PartNumber},
		{&out.SerialNumber, &said.SerialNumber}, {&out.BoardID, &said.BoardID},
	} {
		if *field.from != "" {
			*field.to = *field.from
		}
	}
	return out, nil
}

// Check verifies the file and lets the plugin check it.
func (d *Driver) Check(ctx context.Context, id inventory.Identity, img driver.Image) error {
	if err := img.Verify(); err != nil {
		return err
	}
	_, err := d.call(ctx, VerbCheck, Request{ID: id, Image: img}, command.Command{Timeout: checkTimeout})
	return err
}

// Write lets the plugin write the image. The tool follows the write to its end.
func (d *Driver) Write(ctx context.Context, id inventory.Identity, img driver.Image, progress driver.Progress) (inventory.Activation, error) {
	a, err := d.change(ctx, VerbWrite, id, Request{Image: img}, img.Digest.String(), progress.Lines(percentage))
	if err != nil {
		return 0, err
	}
	if progress != nil {
		progress(100)
	}
	return a.Needs, nil
}

// Activate lets the plugin activate the staged image. The error is a *driver.NotEnoughError where the plugin says why that was not
// enough.
func (d *Driver) Activate(ctx context.Context, id inventory.Identity, kind inventory.Activation) (inventory.Activation, error) {
	if kind != inventory.ActivateDeviceReset && kind != inventory.ActivateDriverReload {
		return 0, fmt.Errorf("activate by %s: %w", kind, driver.ErrNotSupported)
	}
	a, err := d.change(ctx, VerbActivate, id, Request{Kind: kind}, kind.String(), nil)
	if err == nil && a.Needs != inventory.ActivateNone && a.Reason != "" {
		return 0, &driver.NotEnoughError{Needs: a.Needs, Reason: a.Reason}
	}
	return a.Needs, err
}

// Revert lets the plugin make the version in a slot the one that runs next.
func (d *Driver) Revert(ctx context.Context, id inventory.Identity, v inventory.Version) (inventory.Activation, error) {
	a, err := d.change(ctx, VerbRevert, id, Request{To: v}, string(v), nil)
	return a.Needs, err
}

// Configures reports whether the plugin said that it has settings.
func (d *Driver) Configures() bool {
	_, info, _ := d.now()
	return info.Settings
}

// Parameters lets the plugin read the settings of the device.
func (d *Driver) Parameters(ctx context.Context, id inventory.Identity, names ...string) ([]inventory.Parameter, error) {
	a, err := d.call(ctx, VerbParameters, Request{ID: id, Names: names}, command.Command{Timeout: settingTimeout})
	return a.Parameters, err
}

// CheckConfiguration lets the plugin check the settings.
func (d *Driver) CheckConfiguration(ctx context.Context, id inventory.Identity, c driver.Configuration) error {
	_, err := d.call(ctx, VerbCheckConfiguration, Request{ID: id, Settings: c.Set}, command.Command{Timeout: settingTimeout})
	return err
}

// Configure lets the plugin store the settings. The tool follows that to its end.
func (d *Driver) Configure(ctx context.Context, id inventory.Identity, c driver.Configuration) (inventory.Activation, error) {
	what, err := json.Marshal(c.Set)
	if err != nil {
		return 0, fmt.Errorf("encode settings: %w", err)
	}
	a, err := d.change(ctx, VerbConfigure, id, Request{Settings: c.Set}, string(what), nil)
	return a.Needs, err
}

// Archive lets the plugin read the running image into the file.
func (d *Driver) Archive(ctx context.Context, id inventory.Identity, path string) error {
	if !filepath.IsAbs(path) {
		return fmt.Errorf("archive %s to %q: not an absolute path", id.UniqueID, path)
	}
	r := Request{ID: id, Path: path, Task: taskID(VerbArchive, id.UniqueID, path)}
	_, err := d.call(ctx, VerbArchive, r, command.Command{Timeout: archiveTimeout})
	return err
}

// change runs a verb that changes a device. The task id is the same for the same work, so that a second attempt follows
// a first one that still runs. The request expects the plugin version from before the device is read again, because the
// caller has checked the image with that version.
func (d *Driver) change(
	ctx context.Context, v Verb, id inventory.Identity, r Request, what string, progress func(string),
) (Answer, error) {
	r.Version = d.Version()
	now, _, err := d.Inspect(ctx, id) // the unique id is the lock
	switch {
	case err == nil:
		id = now
	case !errors.Is(err, command.ErrStillRunning) || id.UniqueID == "": // a running write is followed, if it is the same task
		return Answer{}, err
	}
	r.ID, r.Task = id, taskID(v, id.UniqueID, what)
	return d.call(ctx, v, r, command.Command{Kind: command.Write, Lock: id.UniqueID, Progress: progress})
}

func taskID(v Verb, parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return string(v) + "-" + hex.EncodeToString(sum[:16])
}

func (d *Driver) call(ctx context.Context, v Verb, r Request, c command.Command) (Answer, error) {
	name, info, installed := d.now()
	if !installed {
		return Answer{}, fmt.Errorf("%s: %w: it is no longer installed", v, ErrUnavailable)
	}
	r.Socket, r.Version = d.dir.socket(name), cmp.Or(r.Version, info.Version)
	a, err := run(ctx, d.dir.runner, v, r, c)
	if err != nil {
		return Answer{}, fmt.Errorf("plugin %s: %w", name, err)
	}
	d.learn(a.Info)
	return a, nil
}

// run runs the tool and parses its output. Errors name the call without the whole request.
func run(ctx context.Context, runner command.Runner, v Verb, r Request, c command.Command) (Answer, error) {
	request, err := json.Marshal(r)
	if err != nil {
		return Answer{}, fmt.Errorf("encode request: %w", err)
	}
	c.Argv = []string{Tool, string(v), string(request)}
	shown := command.Command{Argv: []string{Tool, string(v), r.Socket}}
	result, err := runner.Run(ctx, c)
	var failed *command.Error
	switch {
	case errors.As(err, &failed):
		return Answer{}, &command.Error{Argv: shown.Argv, ExitCode: failed.ExitCode, Stderr: failed.Stderr, Err: failed.Err}
	case err != nil:
		return Answer{}, err
	case result.ExitCode != 0:
		return Answer{}, failure(shown, result)
	}
	a, err := parseAnswer(result.Stdout)
	if err != nil {
		return Answer{}, command.Failed(shown, command.Result{}, err)
	}
	return a, nil
}

// readMemory reads the recorded infos of plugins. Invalid entries are skipped: the plugins report them again.
func readMemory(path string) (map[string]Info, error) {
	known := map[string]Info{}
	if path == "" {
		return known, nil
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return known, nil
	}
	if err != nil {
		return known, fmt.Errorf("read the file of known plugins: %w", err)
	}
	var list []Info
	if err := json.Unmarshal(text, &list); err != nil {
		return known, fmt.Errorf("read the file of known plugins %s: %w", path, err)
	}
	for _, info := range list {
		if info.Check() == nil {
			known[info.Name] = info
		}
	}
	return known, nil
}

func writeMemory(path string, list []Info) error {
	if path == "" {
		return nil
	}
	text, err := json.Marshal(list)
	if err != nil {
		return fmt.Errorf("encode the file of known plugins: %w", err)
	}
	return durable.WriteFile(durable.OS{}, path, append(text, '\n'))
}

// percentage is in the lines of progress of the tool.
var percentage = regexp.MustCompile("^" + ProgressPrefix + `(\d{1,3})$`)
