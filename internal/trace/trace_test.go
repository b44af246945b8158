package trace

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

const header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func annotated(name, value string) *v1alpha1.FirmwareJob {
	j := &v1alpha1.FirmwareJob{}
	j.Annotations = map[string]string{name: value}
	return j
}

// Anybody who makes a job may write anything into its annotations.
func TestParentIsParsedStrictly(t *testing.T) {
	assert.Equal(t, header, Header(Parent(annotated(v1alpha1.TraceParentAnnotation, header))))
	for _, bad := range []string{
		"", "x", strings.ToUpper(header), header + "-more", header + strings.Repeat("0", 1<<20), header + "\nlevel=ERROR",
		"00-00000000000000000000000000000000-00f067aa0ba902b7-01", "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
	} {
		parent := Parent(annotated(v1alpha1.TraceParentAnnotation, bad))
		assert.False(t, parent.IsValid(), "%.80q", bad)
		assert.Empty(t, Header(parent))
	}
	assert.False(t, Parent(&v1alpha1.FirmwareJob{}).IsValid())
}

func TestLinksAreBounded(t *testing.T) {
	var list string
	for i := range 100 {
		list += fmt.Sprintf("00-4bf92f3577b34da6a3ce929d0e0e%04x-00f067aa0ba902b7-01,", i)
	}
	assert.Len(t, Links(annotated(v1alpha1.TraceLinksAnnotation, list)), MaxLinks)
	assert.Len(t, Links(annotated(v1alpha1.TraceLinksAnnotation, "x,"+header)), 1)
	assert.Len(t, Links(annotated(v1alpha1.TraceLinksAnnotation, strings.Repeat(header+",", 5))), 1, "each once")
	both := annotated(v1alpha1.TraceLinksAnnotation, header)
	both.Annotations[v1alpha1.TraceParentAnnotation] = header
	assert.Empty(t, Links(both), "it is the parent")
	assert.Empty(t, Links(&v1alpha1.FirmwareJob{}))
}

func TestEachEditHasATrace(t *testing.T) {
	edit := v1alpha1.Origin{Kind: v1alpha1.OriginTemplate, Name: "nic", UID: "u", Generation: 3}
	same, later, other := edit, edit, edit
	same.Name, same.Rule, same.Hash = "", "r", "h" // what they say of one object
	later.Generation, other.UID = 4, "v"
	assert.Equal(t, OfEdit(edit), OfEdit(same))
	assert.NotEqual(t, OfEdit(edit), OfEdit(later))
	assert.NotEqual(t, OfEdit(edit), OfEdit(other))
	assert.NotEqual(t, SpanOf("a", "bc"), SpanOf("ab", "c"))
}

type notes []string

func (n *notes) Eventf(_, _ runtime.Object, _, _, _, note string, args ...any) {
	*n = append(*n, fmt.Sprintf(note, args...))
}

func TestEventsNameTheTrace(t *testing.T) {
	var said notes
	e := Events{EventRecorder: &said}
	e.Eventf(annotated(v1alpha1.TraceParentAnnotation, header), nil, "Normal", "R", "A", "It is at %d%%.", 5)
	e.Eventf(&v1alpha1.FirmwareJob{}, nil, "Normal", "R", "A", "It is at %d%%.", 5)
	e.Eventf(&v1alpha1.NodeDevice{}, nil, "Normal", "R", "A", "Other")
	e.Eventf(annotated(v1alpha1.TraceParentAnnotation, header), nil, "Normal", "R", "A", "%s", strings.Repeat("x", maxNote))
	assert.Equal(t, notes{"It is at 5%. [trace 4bf92f3577b34da6a3ce929d0e0e4736]", "It is at 5%.", "Other"}, said[:3])
	assert.LessOrEqual(t, len(said[3]), maxNote, "the API server refuses a longer one")
	assert.Contains(t, said[3], "[trace 4bf92f3577b34da6a3ce929d0e0e4736]")
}
