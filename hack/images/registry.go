package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// registry asks the registry of the base images, as a client without an account: https://distribution.github.io/distribution/spec/api.
type registry struct {
	// base is where its API is, token where it has its clients ask for a token.
	base, token string
	client      *http.Client
}

func newRegistry() registry {
	return registry{
		base: "https://registry-1.docker.io", token: "https://auth.docker.io/token?service=registry.docker.io",
		client: &http.Client{Timeout: 10 * time.Second},
	}
}

// answers returns an error unless the registry can be reached. It answers a client without a token with 401.
func (r registry) answers(ctx context.Context) error {
	response, err := r.do(ctx, http.MethodGet, r.base+"/v2/", "")
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if s := response.StatusCode; s != http.StatusOK && s != http.StatusUnauthorized {
		return fmt.Errorf("%s answers %s", r.base, response.Status)
	}
	return nil
}

// digest is what a tag of a repository such as library/debian names now: the index of all platforms.
func (r registry) digest(ctx context.Context, repository, tag string) (string, error) {
	response, err := r.do(ctx, http.MethodGet, r.token+"&scope="+url.QueryEscape("repository:"+repository+":pull"), "")
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	var token struct{ Token string }
	if err := json.NewDecoder(io.LimitReader(response.Body, 1<<20)).Decode(&token); err != nil {
		return "", fmt.Errorf("ask for a token: %w", err)
	}
	response, err = r.do(ctx, http.MethodHead, r.base+"/v2/"+repository+"/manifests/"+tag, token.Token)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	digest := response.Header.Get("Docker-Content-Digest")
	if response.StatusCode != http.StatusOK || !isDigest.MatchString(digest) {
		return "", fmt.Errorf("the registry answers %s with digest %q for %s:%s", response.Status, digest, repository, tag)
	}
	return digest, nil
}

var isDigest = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

func (r registry) do(ctx context.Context, method, address, token string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, address, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/vnd.oci.image.index.v1+json, application/vnd.docker.distribution.manifest.list.v2+json")
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	return r.client.Do(request)
}

// pinned finds the bases in a Dockerfile: ARG NAME=docker.io/REPOSITORY:TAG@DIGEST.
var pinned = regexp.MustCompile(`(?m)^(ARG [A-Z]+_IMAGE=docker\.io/)([a-z/]+):([a-z0-9.-]+)@(sha256:[0-9a-f]{64})$`)

// updateBases writes what the tags name now to the Dockerfiles in the directory root.
func updateBases(ctx context.Context, root string, r registry) error {
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
				digest, err := r.digest(ctx, m[2], m[3])
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
