// Package rollout is the reconciler that admits queued jobs: it keeps the ledgers of the RolloutPolicies and tells each
// job whether it may run.
package rollout
