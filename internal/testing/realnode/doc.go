// Package realnode runs the shipped product on a node as clusters have it: its images are pods of a virtual machine with
// systemd, containerd, a kubelet and a network plugin, and beside it run the real kube-apiserver, kube-controller-manager and
// kube-scheduler. Nothing of Kubernetes is simulated; only the devices that are flashed are.
package realnode
