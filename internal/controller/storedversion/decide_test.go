package storedversion

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// R002-68: what is done follows from what the definition says and from the progress of the API server's own migration. One that failed counts
// whatever the definition says.
func TestDecide(t *testing.T) {
	outdated, current := []string{"v1alpha1", "v1beta1"}, []string{"v1beta1"}
	for name, c := range map[string]struct {
		stored    []string
		migration stage
		waited    time.Duration
		want      action
	}{
		"nothing to do":                             {current, absent, time.Hour, idle},
		"nothing to do and not served":              {current, notServed, time.Hour, idle},
		"the API server does it":                    {outdated, absent, 30 * time.Second, ask},
		"API servers learn of the version":          {outdated, absent, 30*time.Second - 1, settle},
		"the operator does it":                      {outdated, notServed, 0, store},
		"only an earlier version is stored":         {[]string{"v1alpha1"}, notServed, 0, store},
		"it waits for its turn":                     {outdated, waiting, beginsWithin - 1, await},
		"nobody executes it":                        {outdated, waiting, beginsWithin, store},
		"it runs":                                   {outdated, running, endsWithin - 1, await},
		"it does not end":                           {outdated, running, endsWithin, store},
		"it succeeded":                              {current, succeeded, 0, tidy},
		"it succeeded and the definition changed":   {outdated, succeeded, 0, store},
		"it failed":                                 {outdated, failed, 0, store},
		"it failed and the definition says nothing": {current, failed, 0, store},
	} {
		t.Run(name, func(t *testing.T) {
			d := &apiextensionsv1.CustomResourceDefinition{}
			d.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1alpha1"}, {Name: "v1beta1", Storage: true}}
			d.Status.StoredVersions = c.stored
			began := time.Unix(1000, 0)
			assert.Equal(t, c.want, decide(facts{definition: d, migration: c.migration, pass: &pass{since: began}, now: began.Add(c.waited), settles: 30 * time.Second}))
		})
	}
	assert.Equal(t, drop, decide(facts{}), "there is no definition")
}
