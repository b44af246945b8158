package guest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm/nvmetcp"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
)

// State is the state of the machine.
type State struct {
	BootID   string
	Services map[string]ServiceState
}

// ServiceState is one service now. PID is 0 while it does not run.
type ServiceState struct{ PID, Starts int }

// server is the agent.
type server struct {
	config      Config
	supervisors map[string]*supervisor
	stop        context.CancelFunc
	running     sync.WaitGroup
	rebooting   sync.Once
	// failed receives the result of each part of the agent.
	failed chan error

	mu     sync.Mutex
	drives map[string]*nvmetcp.Drive
}

// agent runs the machine until it reboots or an essential part fails.
func agent() error {
	config, err := LoadConfig(ConfigPath)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	s := &server{config: config, supervisors: map[string]*supervisor{}, stop: stop, failed: make(chan error)}
	for i, m := range config.Modules {
		if wanted, err := s.wanted(i); err != nil {
			return err
		} else if m.Deferred && wanted {
			if err := s.load(i); err != nil {
				return err
			}
		}
	}
	if plugged, err := drivesPlugged(); err != nil {
		return err
	} else if plugged {
		if err := s.plugDrives(); err != nil {
			return err
		}
	}
	s.start(func() error { return keepFlash(ctx, flashDir, config.Flash) })
	for _, service := range config.Services {
		v := &supervisor{service: service}
		s.supervisors[service.Name] = v
		s.start(func() error { return v.run(ctx) })
	}
	web := http.Server{Addr: ":" + strconv.Itoa(AgentPort), Handler: s.handler(), ReadHeaderTimeout: time.Minute}
	go func() { s.failed <- web.ListenAndServe() }()
	for err := range s.failed {
		if err != nil {
			return err
		}
	}
	return nil
}

// start runs a part of the agent that ends before the machine goes down.
func (s *server) start(part func() error) {
	s.running.Add(1)
	go func() {
		err := part()
		s.running.Done()
		s.failed <- err
	}()
}

func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	for pattern, answer := range map[string]func(*http.Request) (any, error){
		"GET /state": s.state, "POST /service/{name}/kill": s.kill, "GET /file": readFile, "PUT /file": writeFile, "POST /run": runTool,
		"GET /processes": processes, "POST /module/{name}": s.loadModule, "POST /drives": s.plug, "GET /drive/{serial}": s.drive,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { reply(w, answer, r) })
	}
	mux.HandleFunc("POST /reboot", s.reboot)
	return mux
}

// reply ends a request. The client notices if the answer cannot be sent.
func reply(w http.ResponseWriter, answer func(*http.Request) (any, error), r *http.Request) {
	v, err := answer(r)
	var raw []byte
	if err == nil {
		raw, err = json.Marshal(v)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(raw)))
	_, _ = w.Write(raw)
	if f, ok := w.(http.Flusher); ok {
		f.Flush()
	}
}

func (s *server) state(*http.Request) (any, error) {
	id, err := sysfs.BootID(os.DirFS("/"))
	out := State{BootID: id, Services: map[string]ServiceState{}}
	for name, v := range s.supervisors {
		out.Services[name] = v.status()
	}
	return out, err
}

func (s *server) kill(r *http.Request) (any, error) {
	v := s.supervisors[r.PathValue("name")]
	if v == nil {
		return nil, fmt.Errorf("there is no service %q", r.PathValue("name"))
	}
	return v.kill()
}

// reboot ends everything in order and restarts the machine. It answers first, because the requesting process is about
// to end too.
func (s *server) reboot(w http.ResponseWriter, r *http.Request) {
	reply(w, func(*http.Request) (any, error) { return "rebooting", nil }, r)
	go s.rebooting.Do(func() {
		s.stop()
		s.running.Wait()
		err := saveFlash(flashDir, s.config.Flash)
		unix.Sync()
		if err = errors.Join(err, unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART)); err != nil {
			fmt.Fprintln(os.Stderr, "agent: reboot:", err)
		}
	})
}

// module finds a module of the configuration by the name of its file.
func (s *server) module(name string) (int, error) {
	for i, m := range s.config.Modules {
		if filepath.Base(m.Path) == name+".ko" && m.Deferred {
			return i, nil
		}
	}
	return 0, fmt.Errorf("there is no deferred module %q", name)
}

// wantedPath is the mark of a deferred module that the lab requested: its device stays plugged in.
func (s *server) wantedPath(i int) string {
	return filepath.Join(StateDir, "modules", filepath.Base(s.config.Modules[i].Path))
}

func (s *server) wanted(i int) (bool, error) {
	_, err := os.Stat(s.wantedPath(i))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

func (s *server) load(i int) error {
	m := s.config.Modules[i]
	text, err := parameters(m.Parameters, flashDir, s.config.Flash)
	if err != nil {
		return err
	}
	if err := load(m.Path, text); err != nil {
		return err
	}
	for _, w := range m.After {
		if err := os.WriteFile(w.Path, []byte(w.Value), 0o644); err != nil {
			return fmt.Errorf("set up module %s: %w", m.Path, err)
		}
	}
	return nil
}

func (s *server) loadModule(r *http.Request) (any, error) {
	i, err := s.module(r.PathValue("name"))
	if err == nil {
		err = errors.Join(os.MkdirAll(filepath.Dir(s.wantedPath(i)), 0o755), os.WriteFile(s.wantedPath(i), nil, 0o644), s.load(i))
	}
	return "loaded", err
}
