package kubectl

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/internal/forecast"
	"github.com/nodefirmware/node-firmware-operator/internal/view"
)

func (s *session) uiCommand() *cobra.Command {
	port := 0
	c := &cobra.Command{
		Use:   "ui",
		Short: "Show the fleet as a page in the browser: nodes, rollouts, versions, what is stuck",
		Long: "Show the fleet as a page in the browser: the nodes by rack, pool or model, the rollouts with what is coming, the versions of each model, each node, and all that is stuck " +
			"with the commands that end it. The page is served to this machine alone until Ctrl-C, reads with your rights, and writes nothing. Its address is printed, and holds a secret: " +
			"who has it on this machine sees what you may see.",
		Example: "  kubectl firmware ui\n" +
			"  kubectl firmware ui --port 8090",
		Args: cobra.NoArgs,
	}
	c.Flags().IntVar(&port, "port", 0, "the port of this machine that the page is served on; 0 for any that is free")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if port < 0 || port > 65535 {
			return fmt.Errorf("--port %d: want 0, for any that is free, to 65535", port)
		}
		api, err := s.follow()
		if err != nil {
			return err
		}
		debug.SetGCPercent(50) // a fleet of thousands is a lot of memory for a command, and a little time
		s.say("Reading the fleet of %s …", s.cluster())
		return view.Serve(c.Context(), view.Options{
			API: api, Cluster: cmp.Or(s.context(), s.config.Host), Flags: leading(c.Flags()), Port: port, Explain: s.explain, Now: s.now,
			Forecast: func(ctx context.Context) (*forecast.Forecast, error) {
				facts, err := gatherPlan(ctx, s.api, s.now())
				if err != nil {
					return nil, err
				}
				return forecast.Make(facts), nil
			},
			Ready: func(url string) {
				fmt.Fprintln(s.Out, url)
				s.say("Open this address in a browser of this machine. Ctrl-C ends the view.")
			},
		})
	}
	return c
}

// follow makes a client that watches, for as long as it takes.
func (s *session) follow() (client.WithWatch, error) {
	if _, err := s.connect(); err != nil {
		return nil, err
	}
	kinds, err := scheme()
	if err != nil {
		return nil, fmt.Errorf("register kinds: %w", err)
	}
	config := rest.CopyConfig(s.config)
	config.Timeout = 0
	return client.NewWithWatch(config, client.Options{Scheme: kinds})
}

// wherever are the flags that say which cluster is meant, and as whom. A token or a password is shown to nobody.
var wherever = []string{"as", "as-group", "as-uid", "as-user-extra", "certificate-authority", "client-certificate", "client-key", "cluster", "context", "insecure-skip-tls-verify", "kubeconfig", "server", "tls-server-name", "user"}

// files are those of them that name a file.
var files = []string{"certificate-authority", "client-certificate", "client-key", "kubeconfig"}

// leading are those of the flags that were given with which another command reaches the same cluster as the same person, as a shell takes them.
func leading(flags *pflag.FlagSet) string {
	var out []string
	flags.Visit(func(f *pflag.Flag) {
		if !slices.Contains(wherever, f.Name) {
			return
		}
		values := []string{f.Value.String()}
		if all, is := f.Value.(pflag.SliceValue); is {
			values = all.GetSlice()
		}
		for _, v := range values {
			if path, err := filepath.Abs(v); err == nil && v != "" && slices.Contains(files, f.Name) { // the command is pasted anywhere
				v = path
			}
			out = append(out, "--"+f.Name+"="+shellQuoted(v))
		}
	})
	return strings.Join(out, " ")
}

var unquoted = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// shellQuoted is the text as one word of a shell.
func shellQuoted(text string) string {
	if unquoted.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
