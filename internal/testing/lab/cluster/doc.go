// Package cluster turns a bare API server into a cluster for simulated machines: it installs the product, and simulates
// the kubelets, whose Nodes become NotReady at a reboot and whose pods can be evicted.
package cluster
