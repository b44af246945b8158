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
	if err := json.Unmarshal(answer.Bytes(), &plan); code != 0 && code != changes || err != nil {
		return nil, fmt.Errorf("kubectl firmware plan ended with exit code %d: %s", code, strings.TrimSpace(complaint.String()))
	}
	reboots := map[string]int{}
	for _, n := range plan.Nodes {
		reboots[n.Name] = n.Reboots
	}
	return reboots, nil
}

// known waits until every source is in store and every device that the demo changes was read.
func (l *Lab) known(ctx context.Context) error {
	devices := 0
	for _, t := range targets() {
		devices += len(t.keys) * len(l.Nodes)
	}
	for {
		var sources v1alpha1.FirmwareSourceList
		var found v1alpha1.NodeDeviceList
		if err := l.admin.List(ctx, &sources); err != nil {
			return fmt.Errorf("list sources: %w", err)
		}
		if err := l.admin.List(ctx, &found); err != nil {
			return fmt.Errorf("list devices: %w", err)
		}
		missing := devices
		for _, d := range found.Items {
			if meta.IsStatusConditionTrue(d.Status.Conditions, v1alpha1.ConditionInspected) {
				missing--
			}
		}
		for _, s := range sources.Items {
			if !meta.IsStatusConditionTrue(s.Status.Conditions, v1alpha1.ConditionReady) {
				missing = max(missing, 0) + 1
			}
		}
		if missing <= 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w; it was waiting for sources to be in store and devices to be read", context.Cause(ctx))
		case <-time.After(lookEvery):
		}
	}
}
