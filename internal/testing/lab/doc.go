// Package lab runs the whole product on one machine: a real Kubernetes API, the real operator, and one real daemon for
// each simulated machine, all as processes of their own.
package lab
