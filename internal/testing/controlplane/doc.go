// Package controlplane finds or builds etcd and kube-apiserver, and on demand the garbage collector of Kubernetes, and runs
// them as a real Kubernetes API on the loopback interface, for tests and for the lab.
package controlplane
