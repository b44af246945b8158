// Package schedule decides which node may be disturbed now: from the rollout policies with their ledgers, the nodes and
// the jobs it derives the next ledgers and why every other job waits. It does no I/O.
package schedule
