package guest

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

	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest/nvmectrl"
)

// Client asks the agent in a machine.
type Client struct {
	base   string
	client http.Client
}

// NewClient asks the agent at an address.
func NewClient(address string) *Client {
	// Each request has a connection of its own, because those from before a reboot are dead.
	return &Client{base: "http://" + address, client: http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}}
}

// State says which boot this is and which services run.
func (a *Client) State(ctx context.Context) (State, error) {
	var s State
	return s, a.ask(ctx, http.MethodGet, "/state", nil, &s)
}

// Kill ends a service with SIGKILL.
func (a *Client) Kill(ctx context.Context, service string) error {
	var pid int
	return a.ask(ctx, http.MethodPost, "/service/"+service+"/kill", nil, &pid)
}

// Read returns the content of a file.
func (a *Client) Read(ctx context.Context, path string) (string, error) {
	var content []byte
	err := a.ask(ctx, http.MethodGet, "/file?path="+url.QueryEscape(path), nil, &content)
	return strings.TrimSpace(string(content)), err
}

// Number reads a file with a number in it.
func (a *Client) Number(ctx context.Context, path string) (int, error) {
	text, err := a.Read(ctx, path)
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", path, err)
	}
	return n, nil
}

// Write writes a file, of sysfs or debugfs as well.
func (a *Client) Write(ctx context.Context, path, content string) error {
	var n int
	return a.ask(ctx, http.MethodPut, "/file?path="+url.QueryEscape(path), []byte(content), &n)
}

// Processes are those with a name among their arguments.
func (a *Client) Processes(ctx context.Context, name string) ([]int, error) {
	var pids []int
	return pids, a.ask(ctx, http.MethodGet, "/processes?name="+url.QueryEscape(name), nil, &pids)
}

// Run runs a program.
func (a *Client) Run(ctx context.Context, argv ...string) (Ran, error) {
	var ran Ran
	body, err := json.Marshal(argv)
	if err != nil {
		return ran, err
	}
	return ran, a.ask(ctx, http.MethodPost, "/run", body, &ran)
}

// PlugDrives plugs in the NVMe drives that the agent emulates.
func (a *Client) PlugDrives(ctx context.Context) error {
	var done string
	return a.ask(ctx, http.MethodPost, "/drives", nil, &done)
}

// Drive returns what one of them holds.
func (a *Client) Drive(ctx context.Context, serial string) (nvmectrl.Firmware, error) {
	var f nvmectrl.Firmware
	return f, a.ask(ctx, http.MethodGet, "/drive/"+serial, nil, &f)
}

// Plug loads the module of an emulated device; it is loaded again at every boot.
func (a *Client) Plug(ctx context.Context, module string) error {
	var done string
	return a.ask(ctx, http.MethodPost, "/module/"+module, nil, &done)
}

func (a *Client) ask(ctx context.Context, method, path string, body []byte, into any) error {
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
