package simulation

import (
	"time"

	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
)

// Ending is why a simulation ended.
type Ending string

// The endings.
const (
	// Complete: every node is done.
	Complete Ending = "Complete"
	// Stuck: no job runs, and nothing will happen by itself that lets one go.
	Stuck Ending = "Stuck"
	// Horizon: the end of the time that was to be simulated.
	Horizon Ending = "Horizon"
)

// Report says how a rollout went. Times are virtual; the same options give the same report.
type Report struct {
	Seed   uint64 `json:"seed"`
	Nodes  int    `json:"nodes"`
	Ending Ending `json:"ending"`
	// Start is when the firmware was declared, End when the last thing happened that was simulated.
	Start time.Time `json:"start"`
	End   time.Time `json:"end"`
	// Passes counts the decisions.
	Passes int `json:"passes"`
	// Makespan, LowerBound and Ratio are those of the policy that took longest; absent while nodes are left.
	Makespan   float64 `json:"makespanSeconds,omitempty"`
	LowerBound float64 `json:"lowerBoundSeconds"`
	Ratio      float64 `json:"ratio,omitempty"`
	// NotDue counts the devices that are left out though they do not run what is desired, by why that is.
	NotDue   NotDue         `json:"notDue,omitempty"`
	Policies []PolicyReport `json:"policies"`
}

// PolicyReport says how the rollout of one pool went. A policy that chooses no node is not reported.
type PolicyReport struct {
	Name   string `json:"name"`
	Nodes  int    `json:"nodes"`
	Budget int    `json:"budget"`
	// PeakUnavailable is how many nodes were unavailable at once at the most.
	PeakUnavailable int `json:"peakUnavailable"`
	// Done counts the nodes that run the new firmware at the end; Jobs counts what their jobs came to.
	Done int       `json:"done"`
	Jobs jobCounts `json:"jobs"`
	// Makespan is the time from the start to the end of the last job; absent while nodes are left.
	Makespan float64 `json:"makespanSeconds,omitempty"`
	// LowerBound is what no order of the same jobs could be faster than, and Bounds what it is the maximum of.
	LowerBound float64            `json:"lowerBoundSeconds"`
	Bounds     map[string]float64 `json:"boundsSeconds"`
	Ratio      float64            `json:"ratio,omitempty"`
	// Finished is when the last job ended; absent where no node had anything to update.
	Finished *time.Time `json:"finished,omitempty"`
	// Waves are which nodes went in which wave, by the version that they ran. Empty where no update is followed.
	Waves []WaveReport `json:"waves,omitempty"`
	// Waiting counts the nodes that still wait at the end, by reason.
	Waiting map[schedule.Reason]WaitCount `json:"waiting,omitempty"`
	// Ready is what the policy itself would say at the end.
	Ready string `json:"ready"`
}

// jobCounts counts jobs.
type jobCounts struct {
	Admitted   int `json:"admitted"`
	Succeeded  int `json:"succeeded"`
	Failed     int `json:"failed"`
	Held       int `json:"held"`
	RolledBack int `json:"rolledBack"`
}

// WaitCount counts nodes that wait for one reason, with the message of the first.
type WaitCount struct {
	Nodes   int    `json:"nodes"`
	Message string `json:"message"`
}
