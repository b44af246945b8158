// Package simulation runs the decision of the rollout over a fleet in virtual time: the same schedule.Decide, on policies that
// the rollout controller converted, with a heap of events in place of machines. Time jumps from one event to the next, so months
// pass in seconds. The same options with the same seed give the same result.
package simulation
