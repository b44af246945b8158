package realnode

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm/guest"
)

// site is an overlay as docs/install.md describes it, with what this cluster needs beyond it: no registry and no DNS, and a tool for
// devices that have no firmware. Each check would wait a minute longer without the short quiet period.
const site = `resources: [%[1]s/deploy/kustomize/default]
components: [%[1]s/deploy/kustomize/drain%[2]s]
images:
- {name: localhost/nodefirmware/operator, newName: %[4]s, newTag: %[5]s}
- {name: localhost/nodefirmware/daemon, newName: %[6]s, newTag: %[7]s}
configMapGenerator:
- {name: node-firmware-profiles, namespace: node-firmware-system, files: [disk.yaml, adapter.yaml]}
%[3]sgeneratorOptions: {disableNameSuffixHash: true}
patches:
- patch: |-
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: firmware-operator, namespace: node-firmware-system}
    spec: {template: {spec: {containers: [{name: operator, imagePullPolicy: Never}]}}}
- patch: |-
    apiVersion: apps/v1
    kind: DaemonSet
    metadata: {name: firmware-daemon, namespace: node-firmware-system}
    spec:
      template:
        spec:
          hostAliases: [{ip: ` + podAddress + `, hostnames: [node-firmware-images.node-firmware-system.svc]}]
          containers: [{name: daemon, imagePullPolicy: Never}]
- target: {kind: Deployment, name: firmware-operator}
  patch: |-
    - {op: add, path: /spec/template/spec/containers/0/args/-, value: "--quiet-period=2s"}
- target: {kind: DaemonSet, name: firmware-daemon}
  patch: |-
    - {op: add, path: /spec/template/spec/containers/0/args/-, value: "--tool-path=/usr/sbin:/usr/bin:/sbin:/bin:/host` + toolDir + `"}
    - {op: add, path: /spec/template/spec/containers/0/args/-, value: "--nvme-transports=pcie,tcp"}
`

// profile drives the lab's tool. The device's own firmware is none of it: the tool keeps a version for each device in a file.
const profile = `name: %[1]s
version: "1"
match: {class: %[2]s, support: Vendor, %[3]s}
inspect:
  argv: [` + guest.FlashTool + `, -d, "%[4]s", show]
  timeout: 5m
  exits: {ok: [0]}
  format: json
  fields:
    running: {path: [Running]}
    stored: {path: [Stored]}
write:
  argv: [` + guest.FlashTool + `, -d, "%[4]s", -i, "{{image.path}}", %[5]swrite]
  timeout: 10m
  exits: {ok: [0]}
  progress: 'writing (\d+)%%'
activation: %[6]s
versionFormat: Dotted
rollback: Image
`

// strategy is who executes jobs.
type strategy string

const (
	strategyDaemon strategy = "daemon"
	strategyPod    strategy = "pod"
)

// writeSite writes the overlay into a directory and returns it. Kustomize takes no absolute paths.
func (s *scene) writeSite(by strategy) (string, error) {
	at := filepath.Join(s.dir, "site")
	up, err := filepath.Rel(at, s.checkout)
	if err != nil {
		return "", fmt.Errorf("write overlay: %w", err)
	}
	if err := os.MkdirAll(at, 0o755); err != nil {
		return "", fmt.Errorf("write overlay: %w", err)
	}
	component, handlers := "", ""
	if by == strategyPod {
		component = ", " + up + "/deploy/kustomize/pod-strategy"
		handlers = "- {name: node-firmware-pod-handlers, namespace: node-firmware-system, files: [handlers.yaml]}\n"
	}
	return at, writeFiles(at,
		file{"kustomization.yaml", 0o644, fmt.Sprintf(site, up, component, handlers,
			s.operatorImage.Name, s.operatorImage.Tag, s.daemonImage.Name, s.daemonImage.Tag)},
		file{"handlers.yaml", 0o644, "handlers:\n- image: " + s.daemonImage.String() + "\n"},
		file{"disk.yaml", 0o644, fmt.Sprintf(profile, "lab-disk", "Disk", "transport: virtio, vendorIDs: [\"1af4\"]", "{{device.serialNumber}}", "-a, ", "None")},
		file{"adapter.yaml", 0o644, fmt.Sprintf(profile, "lab-adapter", "NIC", "vendorIDs: [\"1af4\"]", "{{device.node}}", "", "Reboot")},
	)
}
