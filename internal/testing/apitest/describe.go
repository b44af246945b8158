package apitest

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubectl/pkg/describe"
)

// volatile are the fields of a description whose values differ from run to run.
var volatile = regexp.MustCompile(`(?m)^(\s*(?:Creation Timestamp|Resource Version|UID):\s+).*$`)

// Describe is what `kubectl describe <kind> <name>` prints of an object of the cluster scope, by kubectl's own code, without events. What
// differs from run to run is replaced by <…>.
func (e *Env) Describe(t testing.TB, kind schema.GroupVersionKind, name string) string {
	t.Helper()
	mapping, err := e.Client.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	require.NoError(t, err)
	describer, ok := describe.GenericDescriberFor(mapping, e.Config)
	require.True(t, ok)
	text, err := describer.Describe("", name, describe.DescriberSettings{})
	require.NoError(t, err)
	return trimLines(volatile.ReplaceAllString(text, "${1}<…>"))
}
