package scale

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// Report is what one run measured. Times are in seconds and depend on the machine; counts do not.
type Report struct {
	Nodes   int `json:"nodes"`
	Devices int `json:"devices"`
	// Templates of 5 rules each.
	Templates int `json:"templates"`
	Jobs      int `json:"jobs"`

	// CreateSeconds is the time from the start of the operator until each Node had its NodeFirmware.
	CreateSeconds float64 `json:"createSeconds"`
	// AssignSeconds is the time from the first template until firmware was assigned to each device, and RawSeconds that of as many
	// plain writes of the same kind by a client with the same settings while no operator runs.
	AssignSeconds float64 `json:"assignSeconds"`
	RawSeconds    float64 `json:"rawSeconds"`
	// RestartSeconds is the time that a new process of the operator needed until it served.
	RestartSeconds float64 `json:"restartSeconds"`
	// QueueSeconds is the time from the first job to the last, all of which were due at once after the quiet period.
	QueueSeconds float64 `json:"queueSeconds"`
	// RolloutSeconds is the time from the first job to the end of the last, and AdmissionsPerSecond the jobs admitted on average
	// between the first admission and the last. Both depend on the loader, which plays each job in a moment.
	RolloutSeconds      float64 `json:"rolloutSeconds"`
	AdmissionsPerSecond float64 `json:"admissionsPerSecond"`

	// WritesPerDevice are all writes of the operator during the assignment for each device, and WritesPerJob all of them from then
	// to the end of the rollout for each job, templates, policies and events among them.
	WritesPerDevice float64 `json:"writesPerDevice"`
	WritesPerJob    float64 `json:"writesPerJob"`
	// APIMillisecondsPerJob is the processor time of the API server for each job, from the assignment to the end of the rollout. The
	// loader's share is in it.
	APIMillisecondsPerJob float64 `json:"apiMillisecondsPerJob"`
	// RestWrites are the writes of the operator in the RestSeconds after the rollout.
	RestWrites int `json:"restWrites"`
	// RestKinds are the writes at rest by verb and resource.
	RestKinds   map[string]int `json:"restKinds,omitempty"`
	RestSeconds float64        `json:"restSeconds"`
	// AdmittedAtOnce is how many nodes the ledger held at most.
	AdmittedAtOnce int `json:"admittedAtOnce"`
	// FilledPlaces is the share of the places in the budget that had an admitted job, over the time in which others waited for one and
	// all were queued. A place counts as empty from the end of its job until the next one knows that it is admitted.
	FilledPlaces float64 `json:"filledPlaces"`
	// RolloutWrites counts the writes of the operator during the rollout by verb and resource, and Conflicts those of the whole
	// run that the API server refused because somebody else had written.
	RolloutWrites map[string]int `json:"rolloutWrites"`
	Conflicts     int            `json:"conflicts"`

	// PeakMiB is the largest resident memory of the operator, and LargestKiB the size of the largest object by kind, as JSON.
	PeakMiB    float64            `json:"peakMiB"`
	LargestKiB map[string]float64 `json:"largestKiB"`
	// LoggedErrors are the lines of the operator's log at level ERROR, at most 20.
	LoggedErrors []string `json:"loggedErrors"`
}

// Summary prints the result for people.
func (r *Report) Summary(w io.Writer) {
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	for _, row := range []struct {
		what  string
		value any
	}{
		{"nodes", r.Nodes}, {"devices", r.Devices}, {"jobs", r.Jobs},
		{"seconds to create NodeFirmwares", r.CreateSeconds},
		{"seconds to assign", r.AssignSeconds}, {"seconds of as many plain writes", r.RawSeconds},
		{"seconds to restart", r.RestartSeconds}, {"seconds to queue the jobs", r.QueueSeconds}, {"seconds of the rollout", r.RolloutSeconds},
		{"admissions a second", r.AdmissionsPerSecond}, {"admitted at once", r.AdmittedAtOnce},
		{"share of filled places", r.FilledPlaces},
		{"writes for each device", r.WritesPerDevice}, {"writes for each job", r.WritesPerJob}, {"API server's milliseconds for each job", r.APIMillisecondsPerJob}, {"writes at rest", r.RestWrites},
		{"peak of the operator's memory, MiB", r.PeakMiB},
	} {
		if f, ok := row.value.(float64); ok {
			row.value = fmt.Sprintf("%.2f", f)
		}
		fmt.Fprintf(table, "%s\t%v\n", row.what, row.value)
	}
	_ = table.Flush()
}
