package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/nodefirmware/node-firmware-operator/internal/simulation"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/lab"
)

func demoCommand() *cobra.Command {
	var o options
	var d lab.DemoOptions
	var reportFile string
	c := &cobra.Command{
		Use:   "demo",
		Short: "Roll new firmware and settings over a fleet of simulated machines and watch it",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if d.MaxUnavailable < 1 {
				return fmt.Errorf("--max-unavailable %d: choose at least 1, or nothing would ever roll", d.MaxUnavailable)
			}
			if err := o.complete(c); err != nil {
				return err
			}
			o.Uplink, o.Mirror = true, true
			o.Out = lab.NewScreen(c.OutOrStdout())
			d.Screen = o.Out
			l, err := lab.Up(c.Context(), o.Options)
			if err != nil {
				return errors.Join(err, o.keep(c))
			}
			report, err := l.Demo(c.Context(), d)
			if err == nil {
				questions := []string{"status", "why " + report.Nodes[0].Name}
				if report.Cleaned != nil {
					questions = append(questions, "certificates")
				}
				l.Ask(c.Context(), questions...)
			}
			err = errors.Join(err, l.Close())
			if report != nil {
				report.Summary(c.OutOrStdout())
				err = errors.Join(err, simulation.WriteReport(reportFile, report))
			}
			if err != nil {
				return errors.Join(err, o.keep(c))
			}
			return o.removeDir()
		},
	}
	o.register(c, 5*time.Second)
	c.Flags().IntVar(&d.MaxUnavailable, "max-unavailable", 2, "how many nodes may be disturbed at once")
	c.Flags().BoolVar(&d.BadImage, "bad-image", true, "continue with NIC firmware that takes the link down, and watch it being rolled back")
	c.Flags().BoolVar(&d.CutOff, "cut-off", true, "continue with NIC firmware that cuts its node off from the API server, and watch the node returning")
	c.Flags().BoolVar(&d.Settings, "settings", true, "continue with a setting of a NIC that takes the link down, and watch it being taken back")
	c.Flags().BoolVar(&d.Cleaning, "cleaning", true, "end with a node that leaves service, and watch its drives being erased and certified")
	c.Flags().DurationVar(&d.Timeout, "timeout", 15*time.Minute, "how long all acts together may take")
	c.Flags().StringVar(&reportFile, "report", "", "file for the report, as JSON")
	return c
}

// keep prints where the logs of a failed demo are.
func (o *options) keep(c *cobra.Command) error {
	fmt.Fprintf(c.ErrOrStderr(), "Logs and machines of this run are kept in %s.\n", o.Dir)
	return nil
}
