package plugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
)

// MaxPlugins bounds the plugins of a machine.
const MaxPlugins = 16

// DefaultDir is the default directory of the plugins' sockets.
const DefaultDir = "/var/lib/node-firmware/plugins"

// Config says where plugins are.
type Config struct {
	// Dir is the absolute directory with the sockets.
	Dir string
	// Reserved are the names of other drivers, which no plugin may have. Disabled are the names of plugins that are not
	// used.
	Reserved, Disabled []string
	// Memory is a file with the infos of the known plugins, used after a restart until the plugins run again. It is
	// written only if Record is set. Empty for none.
	Memory string
	Record bool
	// Log receives plugins that appear, change or cannot be used; nil for none.
	Log *slog.Logger
	// Now is the clock; nil for time.Now.
	Now func() time.Time
}

// Directory holds the plugins of a machine, which may come and go while it is used.
type Directory struct {
	cfg    Config
	runner command.Runner
	places []*Driver
	// turn is held by the goroutine that refreshes.
	turn chan struct{}
	// remembered holds the infos of plugins from before this process began.
	remembered map[string]Info
	// recorded is the content of the memory file, as far as this process knows.
	recorded []Info
	// complaint is the last logged problem of the directory.
	complaint string
}

// New returns a Directory without reading it.
func New(cfg Config) *Directory {
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	d := &Directory{cfg: cfg, turn: make(chan struct{}, 1)}
	for range MaxPlugins {
		d.places = append(d.places, &Driver{dir: d})
	}
	return d
}

// Validate returns why no plugin of the directory may be used, without contacting any.
func (d *Directory) Validate() error {
	_, _, err := list(d.cfg.Dir)
	return err
}

// Drivers returns the slots for plugins: those with a plugin, and those that may still get one and support no device
// until then. They run Tool through the runner. It has to be called before Refresh.
func (d *Directory) Drivers(runner command.Runner) driver.Set {
	d.runner = runner
	var set driver.Set
	for _, p := range d.places {
		set = append(set, p)
	}
	return set
}

func (d *Directory) socket(name string) string { return filepath.Join(d.cfg.Dir, name+suffix) }

const suffix = ".sock"

// socketID distinguishes a socket from one that replaced it.
type socketID struct {
	inode   uint64
	changed syscall.Timespec
}

// Refresh lists the plugins and requests the info of those that are new or came back. It reports whether the drivers
// changed. The error is about the directory; a plugin that does not answer is only logged.
func (d *Directory) Refresh(ctx context.Context) (changed bool, err error) {
	select {
	case d.turn <- struct{}{}:
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	defer func() { <-d.turn }()
	sockets, problems, err := list(d.cfg.Dir)
	if err != nil {
		return false, err
	}
	if d.remembered == nil {
		if d.remembered, err = readMemory(d.cfg.Memory); err != nil {
			d.cfg.Log.Warn("Could not read the file of known plugins", "err", err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(sockets)) {
		switch p := d.placeOf(name); {
		case slices.Contains(d.cfg.Reserved, name):
			problems = append(problems, fmt.Sprintf("plugin %s has the name of another driver: rename the plugin and its socket", name))
		case slices.Contains(d.cfg.Disabled, name):
			delete(sockets, name)
		case p == nil:
			problems = append(problems, fmt.Sprintf("plugin %s is not used: there are more than %d", name, MaxPlugins))
		case d.ask(ctx, p, name, sockets[name]):
			changed = true
		}
	}
	for _, p := range d.places {
		if _, there := sockets[p.Name()]; !there && p.gone() {
			d.cfg.Log.Info("Plugin was removed", "plugin", p.Name())
			changed = true
		}
	}
	d.complain(strings.Join(problems, "; "))
	d.remember()
	return changed, nil
}

// remember writes the plugins' infos to the memory file.
func (d *Directory) remember() {
	known := d.known()
	if !d.cfg.Record || reflect.DeepEqual(known, d.recorded) {
		return
	}
	if err := writeMemory(d.cfg.Memory, known); err != nil {
		d.cfg.Log.Warn("Could not write the file of known plugins", "err", err)
		return
	}
	d.recorded = known
}

// lookEvery is the interval of refreshes, each of which usually costs one directory listing.
const lookEvery = 10 * time.Second

// Watch refreshes until the context ends, and calls changed after a change.
func (d *Directory) Watch(ctx context.Context, changed func()) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		switch news, err := d.Refresh(ctx); {
		case err != nil && ctx.Err() == nil:
			d.complain(err.Error())
		case news:
			changed()
		}
	}
}

// complain logs a problem, once.
func (d *Directory) complain(about string) {
	if about != d.complaint && about != "" {
		d.cfg.Log.Warn("Plugin directory has unusable entries", "dir", d.cfg.Dir, "problem", about)
	}
	d.complaint = about
}

// placeOf is the place of the plugin, or a free one; nil when all are taken.
func (d *Directory) placeOf(name string) *Driver {
	for _, wanted := range []string{name, ""} {
		for _, p := range d.places {
			if p.Name() == wanted {
				return p
			}
		}
	}
	return nil
}

func (d *Directory) known() []Info {
	var out []Info
	for _, p := range d.places {
		if _, info, installed := p.now(); installed {
			out = append(out, info)
		}
	}
	return out
}

// ask requests a plugin's info, unless it is known for this socket. It reports whether the info changed.
func (d *Directory) ask(ctx context.Context, p *Driver, name string, id socketID) (changed bool) {
	if !p.due(name, id, d.cfg.Now()) {
		return false
	}
	a, err := run(ctx, d.runner, VerbInfo, Request{Socket: d.socket(name)}, command.Command{Timeout: infoTimeout})
	if err == nil && a.Info.Name != name {
		err = fmt.Errorf("the plugin reports the name %q: its socket has to be %s%s", a.Info.Name, a.Info.Name, suffix)
	}
	if ctx.Err() != nil {
		return false
	}
	if err != nil {
		remembered, known := d.remembered[name]
		logged, changed := p.silent(name, id, err.Error(), d.cfg.Now(), remembered, known)
		if !logged {
			d.cfg.Log.Warn("Plugin cannot be used; its devices are not updated", "plugin", name, "err", err)
		}
		return changed
	}
	changed = p.answered(id, a.Info)
	if changed {
		d.cfg.Log.Info("Plugin is available", "plugin", name, "version", a.Info.Version)
	}
	return changed
}

// due reports whether to request the plugin's info: its socket is new, or it did not answer and some time has passed.
func (p *place) due(name string, id socketID, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.name = name
	return p.seen != id || p.failed > 0 && !now.Before(p.retry)
}

// silent records that the plugin did not answer. Its earlier info stays valid.
func (p *place) silent(name string, id socketID, problem string, now time.Time, before Info, known bool) (logged, changed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	logged = p.problem == problem && p.seen == id
	p.seen, p.problem, p.failed = id, problem, min(p.failed+1, 6)
	p.retry = now.Add(min(lookEvery<<p.failed, 5*time.Minute))
	switch {
	case p.info.Name == name:
		changed, p.installed = !p.installed, true
	case known:
		p.info, p.installed, changed = before, true, true
	}
	return logged, changed
}

func (p *place) answered(id socketID, info Info) (changed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	changed = !p.installed || p.failed > 0 || p.info.Version != info.Version
	p.seen, p.problem, p.failed = id, "", 0
	p.info, p.installed = info, true
	return changed
}

// gone removes a plugin whose socket is gone. It reports whether there was one.
func (p *place) gone() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	was := p.installed
	p.info, p.installed, p.seen, p.failed, p.ids = Info{}, false, socketID{}, 0, nil
	return was
}

// writable are the permissions with which users other than the owner could provide drivers that run as root.
const writable = 0o022

// list returns the sockets in the directory and the problems of other entries. A missing directory has none.
func list(dir string) (sockets map[string]socketID, problems []string, err error) {
	info, err := os.Lstat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, nil
	case err != nil:
		return nil, nil, fmt.Errorf("read plugin directory: %w", err)
	case !info.IsDir():
		return nil, nil, fmt.Errorf("plugin directory %s is not a directory: replace it or configure another", dir)
	case info.Mode()&writable != 0:
		return nil, nil, fmt.Errorf("plugin directory %s: users other than its owner may write to it, so no plugin is used: run chmod go-w on it", dir)
	case !trusted(info):
		return nil, nil, fmt.Errorf("plugin directory %s: it belongs to neither root nor this user, so no plugin is used: run chown root on it", dir)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("list plugin directory: %w", err)
	}
	sockets = map[string]socketID{}
	for _, e := range entries {
		name, isSocket := strings.CutSuffix(e.Name(), suffix)
		if strings.HasPrefix(e.Name(), ".") {
			continue // a socket that is being created
		}
		info, err := e.Info()
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			problems = append(problems, err.Error())
		case !isSocket || info.Mode().Type() != fs.ModeSocket:
			problems = append(problems, fmt.Sprintf("%s is not a socket named after a plugin with the suffix .sock: remove it", e.Name()))
		case CheckName(name) != nil:
			problems = append(problems, CheckName(name).Error())
		case !trusted(info):
			problems = append(problems, fmt.Sprintf("%s belongs to neither root nor this user: it is not used", e.Name()))
		default:
			stat, _ := info.Sys().(*syscall.Stat_t)
			sockets[name] = socketID{stat.Ino, stat.Ctim}
		}
	}
	return sockets, problems, nil
}

// trusted reports whether the file's owner has all the rights of this process.
func trusted(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && (stat.Uid == 0 || int(stat.Uid) == os.Geteuid())
}

// place is the state of one plugin of a Directory. Once it has a name, it keeps it.
type place struct {
	mu   sync.Mutex
	name string
	info Info
	// installed says that the socket exists and the plugin's info is known.
	installed bool
	// seen is the socket at the last request for the plugin's info, and failed how often in a row the plugin did not
	// answer.
	seen   socketID
	failed int
	retry  time.Time
	// problem is why the plugin did not answer, as it was logged.
	problem string
	// ids maps the unique ids from the kernel to those the plugin returned.
	ids map[string]string
}

// maxIDs bounds the remembered ids of one plugin.
const maxIDs = 4096

func (p *place) now() (name string, info Info, installed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.name, p.info, p.installed
}

// learn takes over the plugin's info from another answer.
func (p *place) learn(info Info) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.name == info.Name {
		p.info = info
	}
}

// identified returns the unique id the plugin returned for the device before, or the new one if it is the first.
func (p *place) identified(given, said string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range []string{given, said} {
		if before, ok := p.ids[id]; ok && id != "" {
			return before
		}
	}
	if p.ids == nil || len(p.ids) >= maxIDs {
		p.ids = map[string]string{}
	}
	if given != "" {
		p.ids[given] = said
	}
	p.ids[said] = said
	return said
}
