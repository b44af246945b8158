package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/nodefirmware/node-firmware-operator/internal/simulation"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/scale"
)

func scaleCommand() *cobra.Command {
	var o scale.Options
	var reportFile string
	c := &cobra.Command{
		Use:   "scale",
		Short: "Measure the operator on a real Kubernetes API with thousands of nodes whose daemons are played",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if o.Operator == "" {
				if o.Operator, err = program("firmware-operator"); err != nil {
					return err
				}
			}
			dir, remove, err := workDir(o.Dir)
			if err != nil {
				return err
			}
			o.Dir = dir
			o.Out = c.OutOrStdout()
			report, err := scale.Run(c.Context(), o)
			if err != nil {
				fmt.Fprintf(c.ErrOrStderr(), "The log of the operator is kept in %s.\n", o.Dir)
				return err
			}
			report.Summary(c.OutOrStdout())
			return errors.Join(simulation.WriteReport(reportFile, report), remove())
		},
	}
	f := c.Flags()
	f.IntVar(&o.Nodes, "nodes", 5000, "number of nodes, each with 8 devices")
	f.StringVar(&o.Dir, "dir", "", "directory for the API's data and the operator's log; kept at the end (default: a temporary one, removed)")
	f.StringVar(&o.Operator, "operator", "", "the binary of firmware-operator (default: beside firmware-lab)")
	f.DurationVar(&o.QuietPeriod, "quiet-period", 60*time.Second, "how long the operator waits for more changes before it queues a job")
	f.DurationVar(&o.JobDuration, "job-duration", 60*time.Second, "how long a played daemon takes for a job")
	f.DurationVar(&o.Rest, "rest", 60*time.Second, "how long the operator is watched after the rollout")
	f.StringVar(&reportFile, "report", "", "file for the report, as JSON")
	return c
}
