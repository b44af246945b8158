package realnode

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/lab/cluster"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm/guest"
)

// site is an overlay as docs/install.md describes it, with nothing beyond it but that images are not pulled, the private network that
// firmware is fetched from, and a tool for devices that have no firmware.
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
    spec: {template: {spec: {containers: [{name: daemon, imagePullPolicy: Never}]}}}
- target: {kind: DaemonSet, name: firmware-daemon}
  patch: |-
    - {op: add, path: /spec/template/spec/containers/0/args/-, value: "--tool-path=/usr/sbin:/usr/bin:/sbin:/bin:/host` + toolDir + `"}
- target: {kind: Deployment, name: firmware-operator}
  patch: |-
    - {op: add, path: /spec/template/spec/containers/0/args/-, value: "--allow-source-networks=10.0.5.0/24"}
%[8]s`

// quick is what the checks add to the overlay when the installation as it is shipped has updated a device: each job would wait a
// minute longer without the short quiet period, and drives on TCP are the machine's own here.
const quick = `- target: {kind: Deployment, name: firmware-operator}
  patch: |-
    - {op: add, path: /spec/template/spec/containers/0/args/-, value: "--quiet-period=2s"}
- target: {kind: DaemonSet, name: firmware-daemon}
  patch: |-
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

// variant is one way of the overlay.
type variant struct {
	// pods says that pods of the jobs execute them, instead of the daemon; quick adds the patches of that name.
	pods, quick bool
}

// writeSite writes the overlay into a directory and returns it. Kustomize takes no absolute paths.
func (s *scene) writeSite(v variant) (string, error) {
	at := filepath.Join(s.dir, "site")
	up, err := filepath.Rel(at, s.checkout)
	if err != nil {
		return "", fmt.Errorf("write overlay: %w", err)
	}
	if err := os.MkdirAll(at, 0o755); err != nil {
		return "", fmt.Errorf("write overlay: %w", err)
	}
	component, handlers, patches := "", "", ""
	if v.pods {
		component = ", " + up + "/deploy/kustomize/pod-strategy"
		handlers = "- {name: node-firmware-pod-handlers, namespace: node-firmware-system, files: [handlers.yaml]}\n"
	}
	if v.quick {
		patches = quick
	}
	return at, writeFiles(at,
		file{"kustomization.yaml", 0o644, fmt.Sprintf(site, up, component, handlers,
			s.operatorImage.Name, s.operatorImage.Tag, s.daemonImage.Name, s.daemonImage.Tag, patches)},
		file{"handlers.yaml", 0o644, "handlers:\n- image: " + s.daemonImage.String() + "\n"},
		file{"disk.yaml", 0o644, fmt.Sprintf(profile, "lab-disk", "Disk", "transport: virtio, vendorIDs: [\"1af4\"]", "{{device.serialNumber}}", "-a, ", "None")},
		file{"adapter.yaml", 0o644, fmt.Sprintf(profile, "lab-adapter", "NIC", "vendorIDs: [\"1af4\"]", "{{device.node}}", "", "Reboot")},
	)
}

// hurry shortens what only takes time, once, when the installation has shown that it works as it is shipped.
func (s *scene) hurry(ctx context.Context) error {
	if s.variant.quick {
		return nil
	}
	for object, spec := range map[string]string{
		"rolloutpolicy/" + v1alpha1.DefaultRolloutPolicy: `{"spec":{"soak":"5s"}}`,
		// The emulated devices are no PCI functions, of which the kernel tells the daemon.
		"nodefirmware/" + nodeName: `{"spec":{"scanThreshold":"15s"}}`,
	} {
		err := s.Until(ctx, object+" is changed, which the operator made", func(ctx context.Context) (bool, error) {
			_, err := s.kubectl.run(ctx, "patch", object, "--type=merge", "-p", spec)
			return err == nil, err
		})
		if err != nil {
			return err
		}
	}
	return s.reinstall(ctx, variant{quick: true})
}

// reinstall changes the installation, as docs/install.md says of an upgrade: the daemon's pod is replaced by who changes it.
func (s *scene) reinstall(ctx context.Context, v variant) error {
	daemon, err := s.daemon(ctx, "")
	if err != nil {
		return err
	}
	if err := s.install(ctx, v); err != nil {
		return err
	}
	if _, err := s.kubectl.run(ctx, "rollout", "status", "-n", cluster.Namespace, "deployment/firmware-operator", "--timeout="+s.StepLimit.String()); err != nil {
		return err
	}
	if _, err := s.kubectl.run(ctx, "delete", "pod", "-n", cluster.Namespace, daemon.Name, "--timeout="+s.StepLimit.String()); err != nil {
		return err
	}
	_, err = s.daemon(ctx, string(daemon.UID))
	return err
}

// install applies the overlay.
func (s *scene) install(ctx context.Context, v variant) error {
	site, err := s.writeSite(v)
	if err != nil {
		return err
	}
	s.site, s.variant = site, v
	_, err = s.kubectl.run(ctx, "apply", "-k", site)
	return err
}
