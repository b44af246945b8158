package vm

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm/guest"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest/nvmectrl"
)

// agent is a client of the agent in the machine.
type agent struct {
	base   string
	client http.Client
}

func newAgent(address string) *agent {
	// Each request has a connection of its own, because those from before a reboot are dead.
	return &agent{base: "http://" + address, client: http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}}
}

// state says which boot this is and which services run.
func (a *agent) state(ctx context.Context) (guest.State, error) {
	var s guest.State
	return s, a.ask(ctx, http.MethodGet, "/state", nil, &s)
}

// kill ends a service with SIGKILL.
func (a *agent) kill(ctx context.Context, service string) error {
	var pid int
	return a.ask(ctx, http.MethodPost, "/service/"+service+"/kill", nil, &pid)
}

// read returns the content of a file.
func (a *agent) read(ctx context.Context, path string) (string, error) {
	var content []byte
	err := a.ask(ctx, http.MethodGet, "/file?path="+url.QueryEscape(path), nil, &content)
	return strings.TrimSpace(string(content)), err
}

// number reads a file with a number in it.
func (a *agent) number(ctx context.Context, path string) (int, error) {
	text, err := a.read(ctx, path)
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", path, err)
	}
	return n, nil
}

// write writes a file, of sysfs or debugfs as well.
func (a *agent) write(ctx context.Context, path, content string) error {
	var n int
	return a.ask(ctx, http.MethodPut, "/file?path="+url.QueryEscape(path), []byte(content), &n)
}

// processes are those with a name among their arguments.
func (a *agent) processes(ctx context.Context, name string) ([]int, error) {
	var pids []int
	return pids, a.ask(ctx, http.MethodGet, "/processes?name="+url.QueryEscape(name), nil, &pids)
}

// run runs a program.
func (a *agent) run(ctx context.Context, argv ...string) (guest.Ran, error) {
	var ran guest.Ran
	body, err := json.Marshal(argv)
	if err != nil {
		return ran, err
	}
	return ran, a.ask(ctx, http.MethodPost, "/run", body, &ran)
}

// plugDrives plugs in the NVMe drives that the agent emulates.
func (a *agent) plugDrives(ctx context.Context) error {
	var done string
	return a.ask(ctx, http.MethodPost, "/drives", nil, &done)
}

// drive returns what one of them holds.
func (a *agent) drive(ctx context.Context, serial string) (nvmectrl.Firmware, error) {
	var f nvmectrl.Firmware
	return f, a.ask(ctx, http.MethodGet, "/drive/"+serial, nil, &f)
}

// plug loads the module of an emulated device; it is loaded again at every boot.
func (a *agent) plug(ctx context.Context, module string) error {
	var done string
	return a.ask(ctx, http.MethodPost, "/module/"+module, nil, &done)
}

func (a *agent) ask(ctx context.Context, method, path string, body []byte, into any) error {
	request, err := http.NewRequestWithContext(ctx, method, a.base+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := a.client.Do(request)
	if err != nil {
		return fmt.Errorf("ask the machine: %w", err)
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("ask the machine: %s %s: %w", method, path, err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("ask the machine: %s %s: %s", method, path, bytes.TrimSpace(raw))
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("ask the machine: %s %s: %w", method, path, err)
	}
	return nil
}
