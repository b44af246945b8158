package controlplane

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// build makes both programs from the Go modules of hack/controlplane, stamped with their versions.
func (l *Locator) build(ctx context.Context) (string, error) {
	tmp, err := os.MkdirTemp(l.CacheDir, "build-")
	if err != nil {
		return "", fmt.Errorf("create directory for the build: %w", err)
	}
	defer removeAll(tmp)

	for _, b := range []Program{
		{Name: etcdBinary, version: EtcdVersion, dir: "hack/controlplane/etcd", pkg: "go.etcd.io/etcd/server/v3", ldflags: "-s -w", estimate: "about 1 minute"},
		kubernetes(apiServerBinary, "about 6 minutes").of(l.Release),
	} {
		if err := l.buildProgram(ctx, tmp, b); err != nil {
			return "", err
		}
	}
	if err := checkVersions(ctx, tmp, l.Release.String(), EtcdVersion); err != nil {
		return "", err
	}
	return l.builtDir(), l.publish(tmp, l.builtDir())
}

func (l *Locator) buildProgram(ctx context.Context, into string, b Program) error {
	l.say("building %s %s from its Go module, once, %s on two cores", b.Name, b.version, b.estimate)
	_, err := l.goCommand(ctx, b.dir, "build", "-trimpath", "-buildvcs=false", "-tags", b.tags, "-ldflags", b.ldflags,
		"-o", filepath.Join(into, b.Name), b.pkg)
	if err != nil {
		return fmt.Errorf("build %s %s: %w", b.Name, b.version, err)
	}
	return nil
}

// versionFlags are the linker flags that give a kube-apiserver built from its module the version of its release;
// otherwise it would report v0.0.0-master to clients.
func (r Release) versionFlags() string {
	major, minor, _ := strings.Cut(r.minor(), ".")
	var flags []string
	for _, v := range [][2]string{
		{"gitVersion", r.String()},
		{"gitMajor", major},
		{"gitMinor", minor},
		{"gitTreeState", "archive"},
		{"gitCommit", ""},
	} {
		flags = append(flags, fmt.Sprintf("-X k8s.io/component-base/version.%s=%s", v[0], v[1]))
	}
	return strings.Join(flags, " ")
}

// removeAll removes what is left of a download or build. What cannot be removed only takes up space.
func removeAll(dir string) {
	_ = os.RemoveAll(dir)
}
