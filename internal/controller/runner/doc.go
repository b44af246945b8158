// Package runner has each admitted job executed by a pod on its node, made from the image that is configured for the model
// of the machine: the update strategy pod.
package runner
