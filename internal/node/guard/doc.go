// Package guard makes the kubelet of this host start an engine by itself, as a static pod, where the API server cannot be
// reached after a reboot.
package guard
