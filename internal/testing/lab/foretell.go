package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/yaml"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/kubectl"
)

// changes is the exit code of a plan that changes something.
const changes = 2

// foretell asks kubectl firmware plan what the templates would do, once all is known that it depends on, shows the answer, and returns how often
// each node will reboot.
func (l *Lab) foretell(ctx context.Context, templates ...client.Object) (map[string]int, error) {
	if err := l.known(ctx); err != nil {
		return nil, err
	}
	file := filepath.Join(l.options.Dir, "templates.yaml")
	var manifest []byte
	for _, template := range templates {
		kind, err := apiutil.GVKForObject(template, l.admin.Scheme())
		if err != nil {
			return nil, err
		}
		template.GetObjectKind().SetGroupVersionKind(kind) // a file has to say it
		data, err := yaml.Marshal(template)
		if err != nil {
			return nil, fmt.Errorf("write %s: %w", file, err)
		}
		manifest = append(append(manifest, "---\n"...), data...)
	}
	if err := os.WriteFile(file, manifest, 0o600); err != nil {
		return nil, err
	}
	l.Ask(ctx, "plan -f "+file)
	var answer, complaint bytes.Buffer
	code := kubectl.Run(ctx, []string{"plan", "-f", file, "-o", "json", "--kubeconfig", l.KubeconfigPath()},
		genericiooptions.IOStreams{In: strings.NewReader(""), Out: &answer, ErrOut: &complaint})
	var plan kubectl.Plan
	if code != 0 && code != changes {
		return nil, fmt.Errorf("kubectl firmware plan ended with exit code %d: %s", code, strings.TrimSpace(complaint.String()))
	}
	if err := json.Unmarshal(answer.Bytes(), &plan); err != nil {
		return nil, fmt.Errorf("read what kubectl firmware plan says: %w", err)
	}
	reboots := map[string]int{}
	for _, n := range plan.Nodes {
		reboots[n.Name] = n.Reboots
	}
	return reboots, nil
}

// known waits until the images of the templates are in store and the daemon of every node has reported its devices.
func (l *Lab) known(ctx context.Context) error {
	for {
		missing, err := l.unknown(ctx)
		if err != nil {
			return err
		}
		if missing == "" {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w; it was waiting for %s", context.Cause(ctx), missing)
		case <-time.After(lookEvery):
		}
	}
}

// unknown names what a plan depends on and is not known yet; empty where all is.
func (l *Lab) unknown(ctx context.Context) (string, error) {
	for _, t := range targets() {
		var s v1alpha1.FirmwareSource
		if err := l.admin.Get(ctx, client.ObjectKey{Name: t.sourceName()}, &s); err != nil {
			return "", fmt.Errorf("read source: %w", err)
		}
		if !meta.IsStatusConditionTrue(s.Status.Conditions, v1alpha1.ConditionReady) {
			return "source " + s.Name + " to be in store", nil
		}
	}
	for _, n := range l.Nodes {
		var firmware v1alpha1.NodeFirmware
		err := l.admin.Get(ctx, client.ObjectKey{Name: n.Name}, &firmware)
		if client.IgnoreNotFound(err) != nil {
			return "", fmt.Errorf("read node: %w", err)
		}
		if err != nil || firmware.Status.LastScanTime == nil {
			return n.Name + " to report its devices", nil
		}
	}
	return "", nil
}
