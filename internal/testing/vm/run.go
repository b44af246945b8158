package vm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/lab"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm/guest"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm/qemu"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm/rootfs"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm/trial"
)

// Options say where the lab lives.
type Options struct {
	// Dir receives the files of one run.
	Dir string
	// BinDir holds firmware-operator, firmware-daemon and firmware-lab-guest.
	BinDir string
	// CacheDir keeps the files that are the same in every run.
	CacheDir string
	// Only names groups of checks; all run when it is empty.
	Only []string
	// Out receives a line for each check.
	Out io.Writer
}

// Run starts the lab, runs every check and stops it. The first check that fails ends the run, because later checks
// build on it.
func Run(ctx context.Context, o Options) (err error) {
	say := func(format string, args ...any) { fmt.Fprintf(o.Out, format+"\n", args...) }
	began := time.Now()
	list, err := checks.Of(o.Only)
	if err != nil {
		return err
	}
	b, err := prepare(ctx, o, say)
	if err != nil {
		return err
	}
	l, err := lab.Up(ctx, lab.Options{
		Dir: o.Dir, BinDir: o.BinDir, Out: o.Out, QuietPeriod: time.Second, ImageServerNames: []string{hostAddress},
		ScanInterval: time.Minute, HealthTimeout: time.Minute,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	say("Booting Linux %s (%s) in a virtual machine …", b.Release, b.Version)
	n, err := joinMachine(ctx, l, b, o.Dir, o.BinDir)
	if err != nil {
		return err
	}
	defer n.machine.Kill()
	background, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	live := make(chan struct{})
	go func() {
		defer close(live)
		n.live(background)
	}()
	defer func() { cancel(); <-live }()

	s := newScene(l, n, b, o)
	for _, c := range list {
		if err := do(ctx, c, s, say); err != nil {
			s.explain(o.Out)
			return err
		}
	}
	say("%d checks passed in %s.", len(list), time.Since(began).Round(time.Second))
	return nil
}

// needed are the programs the lab runs on this machine. Everything else comes from packages that it unpacks in its cache.
var needed = []rootfs.Need{
	{Program: qemu.Program, Package: "qemu-system-x86"}, {Program: "mke2fs", Package: "e2fsprogs"}, {Program: "make", Package: "make"},
	{Program: "gcc-12", Package: "gcc-12"}, {Program: "xz", Package: "xz-utils"}, {Program: "tar", Package: "tar"},
	{Program: "/usr/lib/x86_64-linux-gnu/libelf.so.1", Package: "libelf1"}, {Program: ovmf, Package: "ovmf"},
	{Program: swtpm, Package: "swtpm"},
}

// prepare builds the parts of the machine.
func prepare(ctx context.Context, o Options, say func(string, ...any)) (base, error) {
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return base{}, fmt.Errorf("prepare lab: %w", err)
	}
	log, err := os.Create(filepath.Join(o.Dir, "prepare.log"))
	if err != nil {
		return base{}, fmt.Errorf("prepare lab: %w", err)
	}
	defer log.Close()
	apt := rootfs.Apt{Log: log}
	if err := apt.Require(ctx, say, needed...); err != nil {
		return base{}, err
	}
	return prepareBase(ctx, o.CacheDir, apt, say)
}

// do bounds a check.
func do(ctx context.Context, c trial.Check[*scene], s *scene, say func(string, ...any)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, checkLimit, fmt.Errorf("not within %s", checkLimit))
	defer cancel()
	return c.Do(ctx, s, say)
}

// tailSize is how much of a log is printed, in bytes.
const tailSize = 6 << 10

// explain prints the ends of the logs.
func (s *scene) explain(out io.Writer) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if job, err := s.Job(ctx); err == nil && job != nil {
		fmt.Fprintf(out, "\n--- %s\n", trial.Describe(job))
	}
	daemon, err := s.agent().Read(ctx, guest.DaemonLog)
	if err != nil {
		daemon = err.Error()
	}
	fmt.Fprintf(out, "\n--- end of the daemon's log\n%s\n", tail(daemon))
	console, err := os.ReadFile(s.node.machine.Console())
	if err != nil {
		console = []byte(err.Error())
	}
	fmt.Fprintf(out, "\n--- end of the machine's console\n%s\n", tail(string(console)))
}

func tail(s string) string {
	if len(s) > tailSize {
		s = s[len(s)-tailSize:]
	}
	return strings.TrimSpace(s)
}
