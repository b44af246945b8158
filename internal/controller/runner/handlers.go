package runner

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

// Handler is a container image that executes jobs on the machines of a model.
type Handler struct {
	// Vendor and Model of the machines, compared with NodeFirmware.status.machine as slugs. Without a model it is for all of
	// the vendor, without both for every machine that has no closer handler.
	Vendor string `json:"vendor,omitempty"`
	Model  string `json:"model,omitempty"`
	// Image of the container. Its entrypoint is firmware-daemon.
	Image string `json:"image"`
	// Args are added to those of the daemon. Each is one word, so that an admission policy finds it in the text of the file.
	Args []string `json:"args,omitempty"`
}

// Handlers are all configured handlers.
type Handlers []Handler

// maxHandlersFile bounds the size of the file in bytes.
const maxHandlersFile = 1 << 20

// LoadHandlers reads a file with the key handlers. What is not understood is an error, and so are two handlers for the same
// machines.
func LoadHandlers(path string) (Handlers, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read pod handlers: %w", err)
	}
	if info.Size() > maxHandlersFile {
		return nil, fmt.Errorf("read pod handlers: %s has %d bytes, more than %d", path, info.Size(), maxHandlersFile)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read pod handlers: %w", err)
	}
	handlers, err := parseHandlers(raw)
	if err != nil {
		return nil, fmt.Errorf("read pod handlers %s: %w", path, err)
	}
	return handlers, nil
}

func parseHandlers(raw []byte) (Handlers, error) {
	var file struct {
		Handlers Handlers `json:"handlers"`
	}
	if err := yaml.UnmarshalStrict(raw, &file); err != nil {
		return nil, err
	}
	if len(file.Handlers) == 0 {
		return nil, errors.New("it has no handlers: list at least one below the key handlers")
	}
	var problems []error
	first := map[string]int{}
	for i, h := range file.Handlers {
		at := fmt.Sprintf("handlers[%d]", i)
		if h.Image == "" || strings.ContainsAny(h.Image, " \t\n") {
			problems = append(problems, fmt.Errorf("%s: image %q: name a container image", at, h.Image))
		}
		for n, a := range h.Args {
			if a == "" || strings.ContainsAny(a, noWord) {
				problems = append(problems, fmt.Errorf("%s: args[%d] %q: write it as one word, without spaces, quotes, commas and brackets; "+
					"an admission policy looks for it in the text of the file", at, n, a))
			}
		}
		if text.Slug(h.Model) != "" && text.Slug(h.Vendor) == "" {
			problems = append(problems, fmt.Errorf("%s: model %q needs its vendor", at, h.Model))
		}
		if before, ok := first[h.key()]; ok {
			problems = append(problems, fmt.Errorf("%s is for the same machines as handlers[%d]: remove one of them", at, before))
			continue
		}
		first[h.key()] = i
	}
	return file.Handlers, errors.Join(problems...)
}

// noWord are the characters that set off the words of the file for the admission policy firmware-job-images.
const noWord = " \t\r\n\"',{}[]"

// key is equal for two handlers of the same machines.
func (h Handler) key() string { return text.Slug(h.Vendor) + "\x00" + text.Slug(h.Model) }

// For finds the handler of a machine: that of its model, else that of its vendor, else that of every machine.
func (hs Handlers) For(m v1alpha1.Machine) (Handler, bool) {
	for _, key := range []string{
		Handler{Vendor: m.Vendor, Model: m.Model}.key(), Handler{Vendor: m.Vendor}.key(), Handler{}.key(),
	} {
		for _, h := range hs {
			if h.key() == key {
				return h, true
			}
		}
	}
	return Handler{}, false
}
