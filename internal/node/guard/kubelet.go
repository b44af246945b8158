package guard

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"
)

// Kubelet is what a guard needs to know of the kubelet of a host. Paths are those of the host.
type Kubelet struct {
	// Manifests is the directory of its static pods.
	Manifests string
	// Server is the URL at which it reaches the API server.
	Server string
}

// FindKubelet reads the command line and the configuration of the kubelet that runs on the host. Proc is the /proc of the host and
// root the way to its files. It returns an error where the kubelet would start no static pod after a boot without the API
// server, as far as that can be seen.
func FindKubelet(proc, root string) (Kubelet, error) {
	flags, err := kubeletFlags(proc)
	if err != nil {
		return Kubelet{}, err
	}
	k := Kubelet{}
	if k.Manifests, err = manifestsDir(flags, root); err != nil {
		return Kubelet{}, err
	}
	if flags["kubeconfig"] == "" {
		return Kubelet{}, errors.New("the kubelet has no --kubeconfig, so it is not known where it reaches the API server")
	}
	access, err := within(root, flags["kubeconfig"])
	if err != nil {
		return Kubelet{}, fmt.Errorf("find the kubelet's kubeconfig: %w", err)
	}
	config, err := clientcmd.LoadFromFile(access)
	if err != nil {
		return Kubelet{}, fmt.Errorf("read the kubelet's kubeconfig %s: %w", flags["kubeconfig"], err)
	}
	if c := config.Contexts[config.CurrentContext]; c != nil && config.Clusters[c.Cluster] != nil {
		k.Server = config.Clusters[c.Cluster].Server
	}
	if k.Server == "" {
		return Kubelet{}, fmt.Errorf("the kubelet's kubeconfig %s names no server in its current context", flags["kubeconfig"])
	}
	return k, nil
}

// kubeletFlags are the flags of the kubelet that the host's first process started. One that another program starts, as in k3s
// and RKE2, is not there after a boot before that program has reached its server. Other processes may have the name: a kubelet in a
// container, and whatever somebody calls so.
func kubeletFlags(proc string) (map[string]string, error) {
	list, err := filepath.Glob(filepath.Join(proc, "[0-9]*", "comm"))
	if err != nil {
		return nil, fmt.Errorf("look for the kubelet: %w", err)
	}
	reason := errors.New("no process of this host is a kubelet; in k3s it is a part of another program, which starts no pods without its server")
	for _, file := range list {
		name, err := os.ReadFile(file)
		if err != nil || strings.TrimSpace(string(name)) != "kubelet" {
			continue // a process may end at any time
		}
		dir := filepath.Dir(file)
		if err := startedByHost(proc, dir); err != nil {
			reason = err
			continue
		}
		line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil {
			reason = fmt.Errorf("read the command line of the kubelet: %w", err)
			continue
		}
		return parseFlags(line), nil
	}
	return nil, reason
}

// startedByHost returns nil when the process is root's and a child of the first process. A user's own process can have any name and
// arguments, and becomes a child of the first one when its parent ends.
func startedByHost(proc, process string) error {
	parent, err := parentOf(process)
	if err != nil {
		return fmt.Errorf("look for the kubelet: %w", err)
	}
	if parent != "1" {
		by, _ := os.ReadFile(filepath.Join(proc, parent, "comm"))
		return fmt.Errorf("the kubelet is started by %s and not by the host's service manager, so after a boot it may wait for the API server",
			cmp.Or(strings.TrimSpace(string(by)), "process "+parent))
	}
	status, err := os.ReadFile(filepath.Join(process, "status"))
	if err != nil {
		return fmt.Errorf("look for the kubelet: %w", err)
	}
	for line := range strings.Lines(string(status)) {
		if ids, ok := strings.CutPrefix(line, "Uid:"); ok && slices.Equal(strings.Fields(ids), []string{"0", "0", "0", "0"}) {
			return nil
		}
	}
	return fmt.Errorf("process %s has the name of a kubelet, and is not root's", filepath.Base(process))
}

// parentOf is the process id of the parent: the second field after the name in parentheses, which may contain anything.
func parentOf(process string) (string, error) {
	stat, err := os.ReadFile(filepath.Join(process, "stat"))
	if err != nil {
		return "", err
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 2 {
		return "", fmt.Errorf("%s/stat has no parent", process)
	}
	return string(fields[1]), nil
}

// parseFlags reads --name=value and --name value.
func parseFlags(line []byte) map[string]string {
	args := strings.Split(strings.TrimRight(string(line), "\x00"), "\x00")
	out := map[string]string{}
	for i, arg := range args {
		name, ok := strings.CutPrefix(arg, "--")
		if !ok {
			continue
		}
		value := ""
		if at := strings.IndexByte(name, '='); at >= 0 {
			name, value = name[:at], name[at+1:]
		} else if i+1 < len(args) {
			value = args[i+1]
		}
		out[name] = value
	}
	return out
}

// manifestsDir is the directory of static pods: the flag, or staticPodPath of the configuration file and of its drop-ins, the
// last of which counts.
func manifestsDir(flags map[string]string, root string) (string, error) {
	dir := ""
	files := []string{}
	if flags["config"] != "" {
		files = append(files, flags["config"])
	}
	if flags["config-dir"] != "" {
		more, err := dropIns(root, flags["config-dir"])
		if err != nil {
			return "", err
		}
		files = append(files, more...)
	}
	for _, file := range files {
		path, err := within(root, file)
		if err != nil {
			return "", fmt.Errorf("find the kubelet's configuration: %w", err)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return "", fmt.Errorf("read the kubelet's configuration: %w", err)
		}
		var config struct {
			StaticPodPath string `json:"staticPodPath"`
		}
		if err := yaml.Unmarshal(data, &config); err != nil {
			return "", fmt.Errorf("read the kubelet's configuration %s: %w", file, err)
		}
		if p := config.StaticPodPath; p != "" {
			if !filepath.IsAbs(p) {
				p = filepath.Join(filepath.Dir(file), p)
			}
			dir = p
		}
	}
	dir = cmp.Or(flags["pod-manifest-path"], dir)
	if dir == "" {
		return "", errors.New("the kubelet has no directory for static pods: set staticPodPath in its configuration")
	}
	path, err := within(root, dir)
	if err != nil {
		return "", fmt.Errorf("find the kubelet's static pods: %w", err)
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("the kubelet's directory for static pods does not exist: make %s", dir)
	case err != nil:
		return "", fmt.Errorf("look at the kubelet's static pods: %w", err)
	case !info.IsDir():
		return "", fmt.Errorf("the kubelet takes the file %s for static pods, and no directory", dir)
	}
	return dir, nil
}

// dropIns are the files that end in .conf below a directory, in order of their names.
func dropIns(root, dir string) ([]string, error) {
	path, err := within(root, dir)
	if err != nil {
		return nil, fmt.Errorf("find the drop-ins of the kubelet's configuration: %w", err)
	}
	names := map[string]bool{}
	err = fs.WalkDir(os.DirFS(path), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && filepath.Ext(name) == ".conf" {
			names[filepath.Join(dir, name)] = true
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list the drop-ins of the kubelet's configuration: %w", err)
	}
	return slices.Sorted(maps.Keys(names)), nil
}

// maxLinks is how many symbolic links the kernel follows in one path.
const maxLinks = 40

// within is the way to a path of the host: symbolic links on it are those of the host, and lead to files of the host.
func within(root, path string) (string, error) {
	done, left, links := "/", strings.Split(filepath.Clean("/"+path), "/"), 0
	for len(left) > 0 {
		name := left[0]
		left = left[1:]
		if name == "" || name == "." {
			continue
		}
		next := filepath.Join(done, name) // .. of the root is the root
		target, err := os.Readlink(filepath.Join(root, next))
		if err != nil { // it is no link, or it is missing, which whoever opens it learns
			done = next
			continue
		}
		if links++; links > maxLinks {
			return "", fmt.Errorf("%s: too many symbolic links", path)
		}
		if filepath.IsAbs(target) {
			done = "/"
		}
		left = append(strings.Split(target, "/"), left...)
	}
	return filepath.Join(root, done), nil
}
