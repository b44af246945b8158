// Package cleaning proves nodes that are new and cleans nodes that leave service: it queues the jobs of CleaningPolicies, keeps such nodes from
// being scheduled on by a taint, and says how far each is.
package cleaning
