// Package rollout is the reconciler that admits queued jobs: it keeps the ledgers of the RolloutPolicies and writes the
// condition Admitted of each job, True or why it waits.
package rollout
