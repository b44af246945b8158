// Package apitest gives the tests of a package a real Kubernetes API: one control plane for all of them, empty at the
// beginning of each.
package apitest
