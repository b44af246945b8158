package main

import (
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/v2_3"
	"github.com/spdx/tools-golang/spdxlib"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const status = `Package: mstflint
Status: install ok installed
Installed-Size: 16315
Architecture: amd64
Version: 4.21.0+1-1
Description: tools
 Version: 9 is text of the description

Package: libc6
Status: install ok installed
Installed-Size: 12987
Architecture: amd64
Source: glibc (2.36-9)
Version: 2.36-9+deb12u13

Package: gone
Status: deinstall ok config-files
Architecture: amd64
Version: 1
`

func TestTheListHasThePackagesAndTheModulesOfAnImage(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	program, err := os.ReadFile(self)
	require.NoError(t, err)
	lower := pack(t, member{"var/lib/dpkg/status", "Package: old\nStatus: install ok installed\nVersion: 0\n", 0o644})
	upper := pack(t, member{"./var/lib/dpkg/status", status, 0o644}, member{"usr/local/bin/daemon", string(program), 0o755},
		member{"usr/bin/script", "#!/bin/sh\n", 0o755}, member{"usr/bin/c", "\x7fELF and no Go", 0o755})
	a, err := openArchive(saved(t, lower, upper))
	require.NoError(t, err)
	defer a.close()
	path := filepath.Join(t.TempDir(), "daemon.spdx.json")
	require.NoError(t, writeSBOM(path, "localhost/nodefirmware/daemon:v1", a))

	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	var d v2_3.Document
	require.NoError(t, spdxjson.ReadInto(f, &d))
	require.NoError(t, spdxlib.ValidateDocument(&d))
	found := map[string]string{}
	for _, p := range d.Packages {
		for _, r := range p.PackageExternalReferences {
			found[p.PackageName] = r.Locator
		}
	}
	assert.Equal(t, "pkg:deb/debian/mstflint@4.21.0%2B1-1?arch=amd64&distro=bookworm", found["mstflint"])
	assert.Contains(t, found, "libc6")
	assert.NotContains(t, found, "gone", "it is not installed")
	assert.NotContains(t, found, "old", "a higher layer has another list")
	assert.Equal(t, "pkg:golang/stdlib@"+strings.TrimPrefix(runtime.Version(), "go"), found["stdlib"])
	assert.Contains(t, d.DocumentNamespace, "0c0ff33")

	first, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, writeSBOM(path, "localhost/nodefirmware/daemon:v1", a))
	second, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(first), string(second), "equal images have equal lists")
}

// A stage of a build may remove tools again, as a Dockerfile does with `RUN rm`: the scanner is not to warn of them.
func TestTheListHasNothingThatAHigherLayerRemoved(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	program, err := os.ReadFile(self)
	require.NoError(t, err)
	lower := pack(t, member{"var/lib/dpkg/status", status, 0o644}, member{"usr/bin/build-tool", string(program), 0o755})
	upper := pack(t, member{"var/lib/.wh.dpkg", "", 0o644}, member{"usr/bin/.wh.build-tool", "", 0o644})
	a, err := openArchive(saved(t, lower, upper))
	require.NoError(t, err)
	defer a.close()
	c, err := readContent(a)
	require.NoError(t, err)
	assert.Empty(t, c.packages)
	assert.Empty(t, c.programs)
}

// A test's own program has no modules in it.
func TestListsModulesOfProgram(t *testing.T) {
	d := document("localhost/nodefirmware/operator:v1", "sha256:0c0ff33", content{programs: map[string]*debug.BuildInfo{
		"firmware-operator": {GoVersion: "go1.26.8", Deps: []*debug.Module{
			{Path: "k8s.io/api", Version: "v0.36.3"}, {Path: "example.com/old", Replace: &debug.Module{Path: "example.com/fork", Version: "v2.0.0+incompatible"}},
		}},
		"usr/bin/other": {GoVersion: "go1.26.8", Deps: []*debug.Module{{Path: "k8s.io/api", Version: "v0.36.3"}}},
	}})
	require.NoError(t, spdxlib.ValidateDocument(d))
	var names []string
	for _, p := range d.Packages {
		names = append(names, p.PackageName+"@"+p.PackageVersion)
	}
	assert.Equal(t, []string{
		"operator@v1", "/firmware-operator@v1", "stdlib@1.26.8", "k8s.io/api@v0.36.3", "example.com/fork@v2.0.0+incompatible", "/usr/bin/other@v1",
	}, names, "what two programs have is one package")
	inOther := 0
	for _, r := range d.Relationships {
		if r.RefA.ElementRefID == "Program-usr-bin-other-v1" {
			inOther++
		}
	}
	assert.Equal(t, 2, inOther)
}

func TestAListOfPackagesThatIsNotUnderstoodIsAnError(t *testing.T) {
	for _, raw := range []string{"", "Version: 1\n", "Package: a\nStatus: install ok installed\n", "Package: a\nInstalled-Size: big\n"} {
		_, err := parseStatus([]byte(raw))
		assert.Error(t, err, "%q", raw)
	}
}

func FuzzParseStatus(f *testing.F) {
	f.Add([]byte(status))
	f.Fuzz(func(t *testing.T, raw []byte) {
		packages, err := parseStatus(raw)
		if err != nil {
			return
		}
		for _, p := range packages {
			assert.NotEmpty(t, p.Name)
			assert.NotEmpty(t, p.Version)
		}
	})
}
