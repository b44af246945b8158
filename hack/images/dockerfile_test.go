package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/nodefirmware/node-firmware-operator/deploy"
	"github.com/nodefirmware/node-firmware-operator/internal/version"
)

// root is the root of the checkout.
const root = "../.."

var dockerfiles = []string{"Dockerfile.daemon", "Dockerfile.operator"}

func read(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, name))
	require.NoError(t, err)
	return string(raw)
}

func TestBasesArePinned(t *testing.T) {
	for _, name := range dockerfiles {
		text := read(t, name)
		assert.Len(t, pinned.FindAllString(text, -1), 2, "%s: a base without a digest, or one that --update-bases does not find", name)
		for _, from := range regexp.MustCompile(`(?m)^FROM (\S+)`).FindAllStringSubmatch(text, -1) {
			argument := strings.Trim(from[1], "${}")
			assert.True(t, from[1] == "scratch" || from[1] == "${"+argument+"}" && strings.Contains(text, "\nARG "+argument+"=docker.io/"), "%s: %s", name, from[0])
		}
	}
}

// TestOneStageBuildsBothImages: the second build finds the layers of the first only while they are made alike.
func TestOneStageBuildsBothImages(t *testing.T) {
	stage := func(name string) string {
		text := read(t, name)
		own := text[:strings.LastIndex(text, "\nFROM ")]
		return own[:strings.LastIndex(own, "\n\n")]
	}
	shared := stage(dockerfiles[0])
	assert.Equal(t, shared, stage(dockerfiles[1]))
	assert.Contains(t, shared, "go build", "the stage that is compared is the one that builds")
}

// TestTheOperatorIsAlone: its image holds one program, and nothing that it could run.
func TestTheOperatorIsAlone(t *testing.T) {
	text := read(t, "Dockerfile.operator")
	var copied []string
	for _, m := range regexp.MustCompile(`(?m)^(?:COPY|ADD) .* (\S+)$`).FindAllStringSubmatch(text[strings.LastIndex(text, "\nFROM "):], -1) {
		copied = append(copied, m[1])
	}
	assert.Equal(t, []string{"/etc/ssl/certs/ca-certificates.crt", "/etc/passwd", "/tmp", "/var/lib/firmware-images", "/firmware-operator"}, copied)
}

// TestSendsBuilderOnlyInputs: a change of anything else would compile everything again.
func TestSendsBuilderOnlyInputs(t *testing.T) {
	assert.Contains(t, read(t, "Dockerfile.operator"), "\nFROM scratch\n", "the operator's image holds no tool at all")
	ignored := read(t, ".dockerignore")
	var copied, sent []string
	for _, m := range regexp.MustCompile(`(?m)^COPY (.+) \S+$`).FindAllStringSubmatch(read(t, dockerfiles[1]), -1) {
		if !strings.HasPrefix(m[1], "--from=") {
			copied = append(copied, strings.Fields(m[1])...)
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^!(\S+)$`).FindAllStringSubmatch(ignored, -1) {
		sent = append(sent, m[1])
	}
	assert.ElementsMatch(t, copied, sent)
	assert.Contains(t, ignored, "\n*\n")
}

// TestManifestsNameBuiltImages: without an overlay, what `make images` builds is what runs.
func TestManifestsNameBuiltImages(t *testing.T) {
	objects, err := deploy.Objects(deploy.Operator, deploy.Daemon)
	require.NoError(t, err)
	var found []string
	for _, o := range objects {
		containers, _, err := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
		require.NoError(t, err)
		for _, c := range containers {
			container := c.(map[string]any)
			found = append(found, container["image"].(string))
			assert.Equal(t, "IfNotPresent", container["imagePullPolicy"], "a node that has the image needs no registry")
		}
	}
	var built []string
	for _, target := range targets(false) {
		built = append(built, defaultRegistry+"/"+target.name+":"+version.Current())
	}
	assert.ElementsMatch(t, built, found)
}

// TestNothingNamesAMovingTag: what runs as root on every node is what somebody chose.
func TestNothingNamesAMovingTag(t *testing.T) {
	for _, dir := range []string{"deploy", "docs", "internal", "README.md", "Makefile"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d os.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() || filepath.Ext(path) == ".go" {
				return err
			}
			raw, err := os.ReadFile(path)
			assert.NotRegexp(t, `[a-z0-9]:latest\b`, string(raw), path)
			return err
		})
		require.NoError(t, err)
	}
}

// installed are the packages of the daemon's image, with fwupd.
func installed(t *testing.T) []string {
	t.Helper()
	text := read(t, "Dockerfile.daemon")
	_, list, found := strings.Cut(text, "--no-install-recommends \\\n")
	require.True(t, found)
	list, _, found = strings.Cut(list, " && ")
	require.True(t, found)
	var out []string
	for line := range strings.Lines(list) {
		line = strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(line), `\`))
		if line == "${FWUPD}" {
			line = "fwupd"
			require.Contains(t, text, "\nARG FWUPD=fwupd\n")
		}
		if !strings.HasPrefix(line, "#") {
			out = append(out, line)
		}
	}
	return out
}

// TestDaemonImageHasAllTools compares the packages with the commands in the code. It proves R001-23.
func TestDaemonImageHasAllTools(t *testing.T) {
	packages := installed(t)
	for _, tool := range toolsInCode(t) {
		needed, known := packagesOf[tool]
		if !assert.True(t, known, "say in packagesOf which packages of Debian the tool %s needs, and install them in Dockerfile.daemon", tool) {
			continue
		}
		for _, p := range needed {
			assert.True(t, slices.Contains(packages, p), "Dockerfile.daemon does not install %s, which %s needs", p, tool)
		}
	}
}
