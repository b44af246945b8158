package realnode

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/controlplane"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/lab/cluster"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm/rootfs"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm/trial"
)

// Options say where the lab lives.
type Options struct {
	// Dir receives the files of one run.
	Dir string
	// CacheDir keeps what is the same in every run.
	CacheDir string
	// DeviceCacheDir is that of the other lab's virtual machine, which has the same devices.
	DeviceCacheDir string
	// BinDir holds firmware-lab-guest.
	BinDir string
	// Images are archives of the product's images, as "docker save" writes them: the operator's and the daemon's.
	Images []string
	// Only names groups of checks; all run when it is empty.
	Only []string
	// StepLimit bounds each wait of a check for one thing.
	StepLimit time.Duration
	// Out receives a line for each check.
	Out io.Writer
}

// prepared is what Prepare hands to Run, in a file of the run's directory.
type prepared struct {
	Programs Programs
	Machine  Machine
	Checkout string
	// Operator and Daemon are the names of the product's images.
	Operator, Daemon image
}

func preparedFile(dir string) string { return filepath.Join(dir, "prepared.json") }

// Prepare builds and installs what a run needs. It uses the network of this machine, which Run has not.
func Prepare(ctx context.Context, o Options) error {
	say := func(format string, args ...any) { fmt.Fprintf(o.Out, format+"\n", args...) }
	if _, err := checks.Of(o.Only); err != nil {
		return err
	}
	if err := errors.Join(os.MkdirAll(o.Dir, 0o755), os.MkdirAll(o.CacheDir, 0o755)); err != nil {
		return fmt.Errorf("prepare lab: %w", err)
	}
	log, err := os.Create(filepath.Join(o.Dir, "prepare.log"))
	if err != nil {
		return fmt.Errorf("prepare lab: %w", err)
	}
	defer log.Close()
	apt := rootfs.Apt{Log: log}
	if err := apt.Require(ctx, say, needed...); err != nil {
		return err
	}
	operator, daemon, err := findImages(o.Images)
	if err != nil {
		return err
	}
	tree, err := prepareTree(ctx, o.CacheDir, apt, say)
	if err != nil {
		return err
	}
	programs, err := collectPrograms(ctx, o.Out)
	if err != nil {
		return err
	}
	guest, pause := filepath.Join(o.BinDir, "firmware-lab-guest"), filepath.Join(o.Dir, "pause.tar")
	if err := writePause(pause, guest); err != nil {
		return err
	}
	devices, err := vm.PrepareDevices(ctx, o.DeviceCacheDir, filepath.Join(o.Dir, "devices"), moduleDir, apt, say)
	if err != nil {
		return err
	}
	machine, err := prepareMachine(ctx, o.CacheDir, parts{tree, programs, guest, append([]string{pause}, o.Images...), devices}, apt, say)
	if err != nil {
		return err
	}
	raw, err := json.Marshal(prepared{programs, machine, controlplane.ModuleRoot(), operator, daemon})
	if err != nil {
		return err
	}
	return os.WriteFile(preparedFile(o.Dir), raw, 0o644)
}

// Run starts the cluster and runs every check, in namespaces that Isolate made. It returns an error if a check failed.
func Run(ctx context.Context, o Options) error {
	say := func(format string, args ...any) { fmt.Fprintf(o.Out, format+"\n", args...) }
	var p prepared
	raw, err := os.ReadFile(preparedFile(o.Dir))
	if err != nil {
		return fmt.Errorf("run lab: %w", err)
	}
	if err := decode(string(raw), &p); err != nil {
		return err
	}
	list, err := checks.Of(o.Only)
	if err != nil {
		return err
	}
	if err := Enter(); err != nil {
		return err
	}
	s, err := newScene(ctx, o.Dir, o.StepLimit, p)
	if err != nil {
		return err
	}
	defer s.close()
	passed, failed := 0, 0
	for _, c := range list {
		if ctx.Err() != nil {
			break
		}
		if s.check(ctx, c, say) {
			passed++
		} else {
			failed++
		}
	}
	say("%d passed, %d failed", passed, failed)
	if failed > 0 || ctx.Err() != nil {
		return errors.Join(fmt.Errorf("%d of %d checks failed", failed, len(list)), ctx.Err())
	}
	return nil
}

// newScene starts the control plane and turns the machine on.
func newScene(ctx context.Context, dir string, stepLimit time.Duration, p prepared) (_ *scene, err error) {
	s := &scene{Node: &trial.Node{Name: nodeName, StepLimit: stepLimit}, dir: dir, checkout: p.Checkout, operatorImage: p.Operator, daemonImage: p.Daemon}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.plane, err = startPlane(ctx, dir, stepLimit); err != nil {
		return nil, err
	}
	s.kubectl = kubectl{p.Programs[controlplane.Kubectl.Name], s.plane.KubeconfigPath()}
	if s.API, err = client.New(s.plane.Config(), client.Options{Scheme: cluster.Scheme()}); err != nil {
		return nil, fmt.Errorf("reach the API server: %w", err)
	}
	if s.origin, err = serveImages(); err != nil {
		return nil, err
	}
	s.Publish = s.origin.put
	if s.node, err = newNode(ctx, p.Machine, s.plane.authority, dir); err != nil {
		return nil, err
	}
	s.Machine = func() trial.Machine { return s.node.machine }
	return s, s.node.start()
}

// check runs one check and reports it. The logs of one that failed are kept.
func (s *scene) check(ctx context.Context, c check, say func(string, ...any)) bool {
	if err := c.Do(ctx, s, say); err != nil {
		say("                %v\n                the logs are in %s", err, s.explain(c))
		return false
	}
	return true
}
