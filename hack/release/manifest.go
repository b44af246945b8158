package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"text/template"
)

// semantic is a version as krew wants it.
var semantic = regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`)

// manifest is what krew knows of the plugin.
type manifest struct {
	Version   string
	Platforms []packed
}

// packed is the plugin for one platform.
type packed struct{ OS, Arch, URI, SHA256, Bin string }

var krew = template.Must(template.New("krew").Parse(`apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: firmware
spec:
  version: {{.Version}}
  homepage: https://github.com/nodefirmware/node-firmware-operator
  shortDescription: See and update the firmware of bare-metal nodes
  description: |
    Shows the firmware of the nodes of a cluster that runs node-firmware-operator: the
    fleet at a glance, which devices run what, what would change and reboot if a file were
    applied, why something is as it is, and who runs firmware that an advisory names.
    Acts on what a person asks for: retry, release, roll back, pin, pause and stop.
  caveats: |
    The cluster needs node-firmware-operator. To compare versions: kubectl firmware version
  platforms:
{{- range .Platforms}}
  - selector:
      matchLabels:
        os: {{.OS}}
        arch: {{.Arch}}
    uri: {{.URI}}
    sha256: {{.SHA256}}
    bin: {{.Bin}}
    files:
    - from: {{.Bin}}
      to: .
    - from: LICENSE
      to: .
{{- end}}
`))

// write writes the manifest under the name that krew wants.
func (m manifest) write(dir string) error {
	var out bytes.Buffer
	if err := krew.Execute(&out, m); err != nil {
		return fmt.Errorf("write manifest: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "firmware.yaml"), out.Bytes(), 0o644); err != nil { //nolint:gosec // it is published
		return fmt.Errorf("write manifest: %w", err)
	}
	return nil
}
