// Package controlplane finds or builds etcd and kube-apiserver and runs them as a real Kubernetes API on the loopback
// interface, for tests and for the lab.
package controlplane
