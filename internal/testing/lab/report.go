package lab

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// Report is what a demo writes to its --report file.
type Report struct {
	// Result is Succeeded or Failed.
	Result string `json:"result"`
	// Reason says why it failed.
	Reason string `json:"reason,omitempty"`
	// DurationSeconds from the creation of the template to the end.
	DurationSeconds float64 `json:"durationSeconds"`
	// MaxDisturbed is the highest number of nodes that were cordoned or not Ready at one time.
	MaxDisturbed int `json:"maxDisturbed"`
	// Rollouts are the updates of the first act, with the waves in which they spread.
	Rollouts []RolloutReport `json:"rollouts,omitempty"`
	// Rollback is the outcome of an image that takes a link down; absent if none was tried.
	Rollback *RollbackReport `json:"rollback,omitempty"`
	// CutOff is the outcome of an image that cuts its node off; absent if none was tried.
	CutOff *CutOffReport `json:"cutOff,omitempty"`
	// Settings is the outcome of the settings of the first act, and of one that takes a link down; absent if none was tried.
	Settings *SettingsReport `json:"settings,omitempty"`
	// Cleaned is the outcome of a node that left service; absent if none did.
	Cleaned *CleanedReport `json:"cleaned,omitempty"`
	Nodes   []NodeReport   `json:"nodes"`
}

// NodeReport is one machine.
type NodeReport struct {
	Name string `json:"name"`
	// Reboots of the machine, counted at its power switch.
	Reboots int `json:"reboots"`
	// ForetoldReboots is how many kubectl firmware plan listed before.
	ForetoldReboots int `json:"foretoldReboots"`
	// Maintenances is how many maintenances the node had.
	Maintenances     int            `json:"maintenances"`
	MaintenanceStart *time.Time     `json:"maintenanceStart,omitempty"`
	MaintenanceEnd   *time.Time     `json:"maintenanceEnd,omitempty"`
	Devices          []DeviceReport `json:"devices"`
	// due says that firmware or settings of it were to be changed when the demo began; in a directory of an earlier demo none are.
	due bool
}

// DeviceReport is one part of a machine.
type DeviceReport struct {
	Name  string `json:"name"`
	Class string `json:"class"`
	// From is the version that ran before, To the one that should run now.
	From string `json:"from"`
	To   string `json:"to"`
	// Running is read back from the simulated hardware, not from the API.
	Running string `json:"running"`
}

func (r *Report) fail(err error) {
	if err != nil {
		r.Result, r.Reason = "Failed", err.Error()
	}
}

// Summary prints the result for people.
func (r *Report) Summary(w io.Writer) {
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "\nNODE\tREBOOTS\tMAINTENANCE\tDEVICES AT TARGET")
	reboots, foretold := 0, 0
	for _, n := range r.Nodes {
		reboots, foretold = reboots+n.Reboots, foretold+n.ForetoldReboots
		at := 0
		for _, d := range n.Devices {
			if d.Running == d.To {
				at++
			}
		}
		length := "-"
		if n.MaintenanceStart != nil && n.MaintenanceEnd != nil {
			length = n.MaintenanceEnd.Sub(*n.MaintenanceStart).Round(time.Second).String()
		}
		fmt.Fprintf(table, "%s\t%d\t%d (%s)\t%d/%d\n", n.Name, n.Reboots, n.Maintenances, length, at, len(n.Devices))
	}
	_ = table.Flush()
	fmt.Fprintf(w, "\n%s after %.0f s; nodes disturbed at once: at most %d; reboots: %d, and the plan had listed %d.\n", r.Result, r.DurationSeconds, r.MaxDisturbed, reboots, foretold)
	if b := r.Rollback; b != nil && b.Node != "" {
		fmt.Fprintf(w, "NIC firmware %s took the link of %s down: rolled back by itself in %.0f s with %d reboots, quarantined, %d nodes spared; the rollout halted and was resumed.\n",
			b.Version, b.Node, b.DurationSeconds, b.Reboots, b.Spared)
	} else if b != nil {
		fmt.Fprintf(w, "NIC firmware %s was quarantined already: %d nodes spared.\n", b.Version, b.Spared)
	}
	if c := r.CutOff; c != nil && c.Result == actRolledBack {
		fmt.Fprintf(w, "NIC firmware %s cut %s off from the API server for %.0f s: rolled back by itself in %.0f s with %d reboots, quarantined, %d nodes spared.\n",
			c.Version, c.Node, c.CutOffSeconds, c.DurationSeconds, c.Reboots, c.Spared)
	} else if c != nil && c.Result == actQuarantined {
		fmt.Fprintf(w, "NIC firmware %s was quarantined already: %d nodes spared.\n", c.Version, c.Spared)
	}
	if s := r.Settings; s != nil && s.Result == actRolledBack {
		fmt.Fprintf(w, "Settings came with the firmware on %d nodes: one maintenance and one reboot for both. linkType %s took the link of %s down: taken back by itself in %.0f s, quarantined, %d nodes spared.\n",
			s.Nodes, wrongLink, s.Node, s.DurationSeconds, len(r.Nodes)-s.RolledBack)
	} else if s != nil && s.Result == actQuarantined {
		fmt.Fprintf(w, "Settings with linkType %s were quarantined already: %d nodes spared.\n", wrongLink, len(r.Nodes))
	}
	if c := r.Cleaned; c != nil && c.Result == actClean {
		fmt.Fprintf(w, "%s left service clean in %.0f s: %d drives erased, each with a certificate.\n", c.Node, c.DurationSeconds, len(c.Certificates))
	}
	if r.Reason != "" {
		fmt.Fprintln(w, r.Reason)
	}
}
