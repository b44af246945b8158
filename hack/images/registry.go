package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
)

// newHub is the registry of the base images, for a client without an account.
func newHub() *remote.Registry {
	return &remote.Registry{RepositoryOptions: remote.RepositoryOptions{
		Reference: registry.Reference{Registry: "docker.io"},
		Client:    &auth.Client{Client: &http.Client{Timeout: 10 * time.Second}, Cache: auth.NewCache()},
	}}
}

// digest is what a tag of a repository such as library/debian names now: the index of all platforms.
func digest(ctx context.Context, hub *remote.Registry, name, tag string) (string, error) {
	repository, err := hub.Repository(ctx, name)
	if err != nil {
		return "", err
	}
	found, err := repository.Resolve(ctx, tag)
	return found.Digest.String(), err
}

// pinned finds the bases in a Dockerfile: ARG NAME=docker.io/REPOSITORY:TAG@DIGEST.
var pinned = regexp.MustCompile(`(?m)^(ARG [A-Z]+_IMAGE=docker\.io/)([a-z/]+):([a-z0-9.-]+)@(sha256:[0-9a-f]{64})$`)

// updateBases writes what the tags name now to the Dockerfiles in the directory root.
func updateBases(ctx context.Context, root string, hub *remote.Registry) error {
	files, err := filepath.Glob(filepath.Join(root, "Dockerfile.*"))
	if err != nil || len(files) == 0 {
		return errors.Join(fmt.Errorf("no Dockerfile in %s: run it in the root of the checkout", root), err)
	}
	known := map[string]string{}
	for _, path := range files {
		raw, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("read Dockerfile: %w", err)
		}
		var problems []error
		text := pinned.ReplaceAllStringFunc(string(raw), func(line string) string {
			m := pinned.FindStringSubmatch(line)
			name := m[2] + ":" + m[3]
			if known[name] == "" {
				digest, err := digest(ctx, hub, m[2], m[3])
				if err != nil {
					problems = append(problems, fmt.Errorf("ask for %s: %w", name, err))
					return line
				}
				known[name] = digest
				fmt.Printf("%s is %s\n", name, digest)
			}
			return strings.TrimSuffix(line, m[4]) + known[name]
		})
		if err := errors.Join(problems...); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return fmt.Errorf("write Dockerfile: %w", err)
		}
	}
	return nil
}
