package plugintool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/plugin"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/plugin/v1"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/plugin/wire"
)

// Main runs the tool: VERB REQUEST. It prints progress and the answer to stdout, errors to stderr, and returns its exit
// code. Once a write has begun, the tool runs until the write ends.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	err := run(ctx, args, stdout)
	if err == nil {
		return 0
	}
	text := err.Error()
	if rejected := (*driver.RejectedError)(nil); errors.As(err, &rejected) {
		text = rejected.Reason
		if rejected.Of != "" {
			fmt.Fprintln(stdout, plugin.RejectedPrefix+rejected.Of)
		}
	}
	fmt.Fprintln(stderr, plugin.Message(text))
	return plugin.ExitCode(err)
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	if len(args) != 2 {
		return errors.New("usage: " + plugin.Tool + " VERB REQUEST")
	}
	var r plugin.Request
	if err := json.Unmarshal([]byte(args[1]), &r); err != nil {
		return fmt.Errorf("read request: %w", err)
	}
	verb := plugin.Verb(args[0])
	if verb.Writes() {
		ctx = context.WithoutCancel(ctx)
	}
	s, err := open(r)
	if err != nil {
		return err
	}
	defer s.conn.Close()
	s.out = stdout
	if err := s.greet(ctx); err != nil {
		return err
	}
	a, err := s.do(ctx, verb)
	if err != nil {
		return err
	}
	a.Info = s.info
	text, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	_, err = fmt.Fprintf(stdout, "%s%s\n", plugin.AnswerPrefix, text)
	return err
}

// greetTimeout is how long a plugin may take to report its info.
const greetTimeout = 5 * time.Second

// maxMessage bounds a message in bytes, in both directions.
const maxMessage = 1 << 20

type session struct {
	request plugin.Request
	conn    *grpc.ClientConn
	plugin  pluginv1.DriverClient
	info    plugin.Info
	out     io.Writer
	// percent is the last reported percentage; -1 before the first.
	percent int32
}

// open does not connect yet.
func open(r plugin.Request) (*session, error) {
	if !filepath.IsAbs(r.Socket) {
		return nil, fmt.Errorf("socket %q: not an absolute path", r.Socket)
	}
	conn, err := grpc.NewClient("unix://"+r.Socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()), // a local socket, protected by the permissions of its directory
		grpc.WithDisableServiceConfig(), grpc.WithDisableRetry(), grpc.WithAuthority("localhost"), grpc.WithUserAgent(plugin.Tool),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)))
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", r.Socket, err)
	}
	return &session{request: r, conn: conn, plugin: pluginv1.NewDriverClient(conn), percent: -1}, nil
}

// greet requests the plugin's info. A plugin that hangs is detected before anything is begun.
func (s *session) greet(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, greetTimeout)
	defer cancel()
	m, err := s.plugin.GetInfo(ctx, &pluginv1.GetInfoRequest{})
	if err = answered(err, m.GetStatus()); err != nil {
		return fmt.Errorf("get info of plugin %s: %w", s.request.Socket, err)
	}
	if s.info, err = wire.InfoFrom(m); err != nil {
		return fmt.Errorf("%w: %w", plugin.ErrInvalid, err)
	}
	if want := strings.TrimSuffix(filepath.Base(s.request.Socket), ".sock"); s.info.Name != want {
		return fmt.Errorf("%w: it reports the name %q, but its socket has the name %s", plugin.ErrInvalid, s.info.Name, want)
	}
	return nil
}

// answered is the error of a call: that of the transport, or else that in the status.
func answered(err error, s *pluginv1.Status) error {
	if err == nil {
		return wire.StatusFrom(s)
	}
	message := plugin.Message(status.Convert(err).Message())
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
		return fmt.Errorf("%w: %s; check whether it runs", plugin.ErrUnavailable, message)
	case codes.Unimplemented:
		return fmt.Errorf("%w: %s", driver.ErrNotSupported, message)
	case codes.Internal, codes.ResourceExhausted:
		return fmt.Errorf("%w: %s", plugin.ErrInvalid, message)
	default:
		return errors.New(message)
	}
}
