package main

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	provenance "github.com/in-toto/attestation/go/predicates/provenance/v1"
	intoto "github.com/in-toto/attestation/go/v1"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// The files that seal adds to a release.
const (
	installFile    = "install.yaml"
	notesFile      = "NOTES.md"
	provenanceFile = "provenance.intoto.json"
	sumsFile       = "SHA256SUMS"
	signatureFile  = "SHA256SUMS.sig"
)

// repository and buildType are what the statement of provenance says of source and build.
const (
	repository = "https://github.com/nodefirmware/node-firmware-operator"
	buildType  = repository + "/blob/main/Makefile#release"
)

// sealing is what is asked of a release.
type sealing struct {
	version, dir, registry, key string
	dry                         bool
}

// checked is what a release needs besides its files.
type checked struct {
	commit string
	signer signature.Signer
	notes  []byte
}

// check finds what must hold for a release, and changes nothing.
func (s sealing) check(ctx context.Context) (c checked, err error) {
	if !semantic.MatchString(s.version) {
		return c, fmt.Errorf("-version %q: want vMAJOR.MINOR.PATCH, with or without a suffix", s.version)
	}
	if s.registry == "" || !s.dry && strings.HasPrefix(s.registry, "localhost/") {
		return c, fmt.Errorf("-registry %q: name the one from which clusters pull the images, such as registry.example.com/firmware", s.registry)
	}
	if c.commit, err = s.commit(ctx); err != nil {
		return c, err
	}
	if c.signer, err = s.sign(); err != nil {
		return c, err
	}
	changes, err := os.ReadFile("CHANGELOG.md")
	if err != nil {
		return c, fmt.Errorf("read changelog: %w", err)
	}
	c.notes, err = s.notes(string(changes))
	return c, err
}

// seal completes the directory of a release. Nothing is written where check finds something.
func (s sealing) seal(ctx context.Context) error {
	c, err := s.check(ctx)
	if err != nil {
		return err
	}
	if err := s.complete(); err != nil {
		return err
	}
	install, err := s.manifests(ctx)
	if err != nil {
		return err
	}
	if err := errors.Join(s.write(notesFile, c.notes), s.write(installFile, install)); err != nil {
		return err
	}
	statement, err := s.provenance(c.commit)
	if err != nil {
		return err
	}
	if err := s.write(provenanceFile, statement); err != nil {
		return err
	}
	files, err := s.files()
	if err != nil {
		return err
	}
	var sums bytes.Buffer
	fmt.Fprintf(&sums, "# node-firmware-operator %s\n", s.version)
	for _, f := range files {
		fmt.Fprintf(&sums, "%s  %s\n", f.digest, f.name)
	}
	if err := s.write(sumsFile, sums.Bytes()); err != nil {
		return err
	}
	fmt.Print(sums.String())
	if c.signer == nil {
		return nil
	}
	return s.signed(c.signer, sums.Bytes())
}

// signed writes the signature of the list of checksums.
func (s sealing) signed(signer signature.Signer, sums []byte) error {
	text, err := signer.SignMessage(bytes.NewReader(sums))
	if err != nil {
		return fmt.Errorf("sign: %w", err)
	}
	return s.write(signatureFile, []byte(base64.StdEncoding.EncodeToString(text)))
}

// commit is that of the release: the one with its tag, and nothing else in the checkout.
func (s sealing) commit(ctx context.Context) (string, error) {
	out, err := run(ctx, nil, "git", "rev-parse", "HEAD")
	if err != nil || s.dry {
		return strings.TrimSpace(out), err
	}
	changed, err := run(ctx, nil, "git", "status", "--porcelain")
	if err != nil {
		return "", err
	}
	if changed != "" {
		return "", fmt.Errorf("the checkout has changes that are not committed, so nobody could build %s again; nothing was signed:\n%s", s.version, changed)
	}
	tags, err := run(ctx, nil, "git", "tag", "--points-at", "HEAD")
	if err != nil {
		return "", err
	}
	if !slices.Contains(strings.Fields(tags), s.version) {
		return "", fmt.Errorf("the commit %.12s does not have the tag %s; check out the tag, or make it with git tag -s %s", out, s.version, s.version)
	}
	return strings.TrimSpace(out), nil
}

// complete says what is missing in the directory.
func (s sealing) complete() error {
	want := []string{"firmware.yaml", "node-firmware-operator-" + strings.TrimPrefix(s.version, "v") + ".tgz"}
	if !s.dry {
		want = append(want, "operator.tar", "operator.spdx.json", "daemon.tar", "daemon.spdx.json")
	}
	for _, name := range want {
		if _, err := os.Stat(filepath.Join(s.dir, name)); err != nil {
			return fmt.Errorf("the release lacks %s (%w); make all of it with: make release VERSION=%s", name, err, s.version)
		}
	}
	return nil
}

// sign opens the key; there is none for a dry run, which nobody shall take for a release.
func (s sealing) sign() (signature.Signer, error) {
	switch {
	case s.dry && s.key != "":
		return nil, errors.New("a dry run is not signed: leave -key out, or -dry-run")
	case s.dry:
		return nil, nil
	case s.key == "":
		return nil, errors.New("name the key that signs the release with -key; cosign generate-key-pair makes one")
	}
	return openKey(s.key)
}

func openKey(file string) (signature.Signer, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read key: %w", err)
	}
	key, err := cryptoutils.UnmarshalPEMToPrivateKey(pem, func(bool) ([]byte, error) { return []byte(os.Getenv("COSIGN_PASSWORD")), nil })
	if err != nil {
		return nil, fmt.Errorf("read key %s: %w; COSIGN_PASSWORD must be its password", file, err)
	}
	own, is := key.(*ecdsa.PrivateKey)
	if !is {
		return nil, fmt.Errorf("read key %s: it is a %T, and what is printed to verify a release takes ECDSA keys", file, key)
	}
	return signature.LoadECDSASigner(own, crypto.SHA256)
}

// heading begins the part of a version in the changelog.
var heading = regexp.MustCompile(`(?m)^## \[(.+)\].*\n`)

// notes are what the changelog says of the version; for a dry run the newest that it says.
func (s sealing) notes(changes string) ([]byte, error) {
	want := strings.TrimPrefix(s.version, "v")
	parts := heading.FindAllStringSubmatchIndex(changes, -1)
	for i, p := range parts {
		if !s.dry && changes[p[2]:p[3]] != want {
			continue
		}
		end := len(changes)
		if i+1 < len(parts) {
			end = parts[i+1][0]
		}
		if text := strings.TrimSpace(changes[p[1]:end]); text != "" {
			// Links of the changelog are paths of the repository.
			return []byte(relative.ReplaceAllString(text, "]("+repository+"/blob/"+s.version+"/$1)") + "\n"), nil
		}
	}
	return nil, fmt.Errorf("CHANGELOG.md says nothing under ## [%s]", want)
}

var relative = regexp.MustCompile(`\]\((docs/[^)]+)\)`)

// manifests are those of kubectl apply, with the images of the release.
func (s sealing) manifests(ctx context.Context) ([]byte, error) {
	if err := os.MkdirAll("bin", 0o755); err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	dir, err := os.MkdirTemp("bin", "manifests-") // kustomize takes relative paths only
	if err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	text := "resources: [../../deploy/kustomize/default]\nimages:\n"
	for _, name := range []string{"operator", "daemon"} {
		text += fmt.Sprintf("- {name: localhost/nodefirmware/%s, newName: %q, newTag: %q}\n", name, s.registry+"/"+name, s.version)
	}
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o600); err != nil {
		return nil, fmt.Errorf("write kustomization: %w", err)
	}
	out, err := run(ctx, nil, "go", "tool", "-modfile=hack/tools/kustomize/go.mod", "kustomize", "build", dir)
	return []byte(out), err
}

// provenance states from what and how the files of the directory were built (in-toto statement v1, SLSA provenance v1).
func (s sealing) provenance(commit string) ([]byte, error) {
	files, err := s.files()
	if err != nil {
		return nil, err
	}
	parameters, err := structpb.NewStruct(map[string]any{"version": s.version, "registry": s.registry, "dryRun": s.dry})
	if err != nil {
		return nil, fmt.Errorf("state provenance: %w", err)
	}
	predicate := &provenance.Provenance{
		BuildDefinition: &provenance.BuildDefinition{
			BuildType: buildType, ExternalParameters: parameters,
			ResolvedDependencies: []*intoto.ResourceDescriptor{{Uri: "git+" + repository, Digest: map[string]string{"gitCommit": commit}}},
		},
		RunDetails: &provenance.RunDetails{
			Builder:  &provenance.Builder{Id: buildType, Version: map[string]string{"go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH}},
			Metadata: &provenance.BuildMetadata{FinishedOn: timestamppb.New(time.Now())},
		},
	}
	statement := &intoto.Statement{Type: intoto.StatementTypeUri, PredicateType: "https://slsa.dev/provenance/v1", Predicate: &structpb.Struct{}}
	for _, f := range files {
		statement.Subject = append(statement.Subject, &intoto.ResourceDescriptor{Name: f.name, Digest: map[string]string{"sha256": f.digest}})
	}
	raw, err := protojson.Marshal(predicate)
	if err == nil {
		err = protojson.Unmarshal(raw, statement.Predicate)
	}
	if err == nil {
		err = errors.Join(predicate.Validate(), statement.Validate())
	}
	if err == nil {
		raw, err = protojson.Marshal(statement)
	}
	if err != nil {
		return nil, fmt.Errorf("state provenance: %w", err)
	}
	return append(raw, '\n'), nil
}

// summed is a file with its SHA-256, in hex.
type summed struct{ name, digest string }

// files are those of the release, in the order of their names.
func (s sealing) files() ([]summed, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, fmt.Errorf("list release: %w", err)
	}
	var out []summed
	for _, e := range entries {
		if e.IsDir() || e.Name() == sumsFile || e.Name() == signatureFile {
			continue
		}
		f, err := os.Open(filepath.Join(s.dir, e.Name()))
		if err != nil {
			return nil, fmt.Errorf("read release: %w", err)
		}
		h := sha256.New()
		_, err = io.Copy(h, f)
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, fmt.Errorf("read release: %w", err)
		}
		out = append(out, summed{e.Name(), fmt.Sprintf("%x", h.Sum(nil))})
	}
	return out, nil
}

func (s sealing) write(name string, content []byte) error {
	if err := os.WriteFile(filepath.Join(s.dir, name), content, 0o644); err != nil { //nolint:gosec // it is published
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}
