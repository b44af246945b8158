package realnode

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/child"
)

// importConfig turns off what would run containers, and what writes outside the directories of the command line.
const importConfig = `version = 3
disabled_plugins = [
  'io.containerd.cri.v1.images', 'io.containerd.cri.v1.runtime', 'io.containerd.grpc.v1.cri', 'io.containerd.nri.v1.nri',
  'io.containerd.internal.v1.opt',
]
`

// importImages puts images into the store of a containerd of the machine, as its kubelet finds them, unpacked. It runs a
// containerd of its own on this machine for that, because the emulated processors of the machine take minutes. Its mounts are
// seen by nobody else.
func importImages(ctx context.Context, programs Programs, store, log string, archives []string) error {
	// The path of a socket is short, so this is not below the working directory.
	run, err := os.MkdirTemp("", "lab-containerd-")
	if err != nil {
		return fmt.Errorf("import images: %w", err)
	}
	defer os.RemoveAll(run)
	config, socket := filepath.Join(run, "config.toml"), filepath.Join(run, "socket")
	if err := os.WriteFile(config, []byte(importConfig), 0o644); err != nil {
		return fmt.Errorf("import images: %w", err)
	}
	engine, err := child.Start("containerd", log, "unshare", "--mount", "--propagation", "private", "--", programs["containerd"],
		"--config", config, "--root", store, "--state", filepath.Join(run, "state"), "--address", socket)
	if err != nil {
		return fmt.Errorf("import images: %w", err)
	}
	defer engine.Stop(5 * time.Second)
	ctr := func(ctx context.Context, args ...string) error {
		out, err := exec.CommandContext(ctx, programs["ctr"], append([]string{"--address", socket, "--namespace", "k8s.io"}, args...)...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("run ctr %s: %w: %s", args[0], err, tail(string(out), 500))
		}
		return nil
	}
	var last error
	err = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		last = ctr(ctx, "version")
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("import images: %w; see %s", errors.Join(err, last), log)
	}
	for _, a := range archives {
		if err := ctr(ctx, "images", "import", "--snapshotter", "overlayfs", a); err != nil {
			return fmt.Errorf("import image %s: %w", filepath.Base(a), err)
		}
	}
	// The kubelet removes no pinned image, and finds only those that are labelled.
	return ctr(ctx, "images", "label", pauseImage, "io.cri-containerd.image=managed", "io.cri-containerd.pinned=pinned")
}

// fileDigest is the SHA-256 digest of a file.
func fileDigest(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", filepath.Base(path), err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("read %s: %w", filepath.Base(path), err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
