// Package v1alpha1 holds the kinds, conditions and reasons of the nodefirmware.io API group.
//
// +kubebuilder:object:generate=true
// +groupName=nodefirmware.io
package v1alpha1
