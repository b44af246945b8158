// Package cluster makes a bare API server into a cluster for simulated machines: it installs the product, and stands in
// for the kubelets, whose Nodes go NotReady at a reboot and whose pods can be evicted.
package cluster
