package controller

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestKnowsLifecycle(t *testing.T) {
	for v, want := range map[string]bool{
		"v1.36.3": false, "v1.37.0": true, "v1.37.0-beta.1": true, "v1.37.2-eks-1a2b3c": true, "v1.40.1+k3s1": true, "v2.0.0": true, "": false, "devel": false,
	} {
		assert.Equal(t, want, knowsLifecycle(v), v)
	}
}
