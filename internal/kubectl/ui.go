package kubectl

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"
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
			API: api, Port: port, Explain: s.explain, Now: s.now,
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
