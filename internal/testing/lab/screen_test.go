package lab

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// terminal is what somebody sees of what was written to a terminal.
func terminal(t *testing.T, written string) []string {
	t.Helper()
	lines, at := []string{}, 0
	for rest := written; rest != ""; {
		up := 0
		switch n, _ := fmt.Sscanf(rest, cursorUp, &up); {
		case n == 1:
			at -= up
			require.GreaterOrEqual(t, at, 0)
			rest = rest[len(fmt.Sprintf(cursorUp, up)):]
		case strings.HasPrefix(rest, eraseDown):
			lines, rest = lines[:at], rest[len(eraseDown):]
		default:
			var line string
			line, rest, _ = strings.Cut(rest, "\n")
			lines, at = append(lines[:at], line), at+1
		}
	}
	return lines
}

func screenOf(width, height int) (*Screen, *bytes.Buffer) {
	var out bytes.Buffer
	return &Screen{out: &out, size: func() (int, int, error) { return width, height, nil }}, &out
}

func TestThePictureReplacesTheLastOneAndWhatIsSaidStays(t *testing.T) {
	s, out := screenOf(120, 24)
	v := newView(s, time.Now())
	p := &picture{rows: []row{{node: "node-1", state: "Ready", step: "queued", wanted: 4, settled: 2}}, waves: []v1alpha1.RolloutStatus{{Wave: "one", Message: "wave one is open"}}}
	fmt.Fprintln(s, "Declared.")
	v.show(p)
	p.rows[0].step, p.rows[0].current = "flash nic 40%", 2
	v.show(p)
	seen := terminal(t, out.String())
	require.Len(t, seen, 5)
	assert.Equal(t, "Declared.", seen[0])
	assert.Contains(t, seen[2], "██████░░░░░░░░░░░░░░  firmware 2/4  settings 0/2  1 of 1 nodes in service")
	assert.Equal(t, []string{"node-1   ██████░░░░░░░░░░░░░░  flash nic 40%                      Ready", "wave one is open"}, seen[3:])
	fmt.Fprintln(s, "Halted.")
	v.show(p)
	assert.Equal(t, "Halted.", terminal(t, out.String())[5], "the picture before it stays, and the next one is drawn below")
	assert.Len(t, terminal(t, out.String()), 10)
}

func TestAPictureFitsIntoTheTerminal(t *testing.T) {
	s, out := screenOf(30, 6)
	p := &picture{}
	for i := range 40 {
		p.rows = append(p.rows, row{node: fmt.Sprintf("node-%d", i+1), state: "Ready", step: "complete", current: 1, wanted: 1})
	}
	for range 2 {
		newView(s, time.Now()).show(p)
	}
	lines := terminal(t, out.String())
	assert.Len(t, lines, 5)
	assert.Equal(t, "… and 38 more", lines[4])
	for _, line := range lines {
		assert.LessOrEqual(t, len([]rune(line)), 30)
	}
}

// Elsewhere than on a terminal a wave is said once, and not with each node of it.
func TestALogHasALineForEachChange(t *testing.T) {
	var out bytes.Buffer
	assert.IsNotType(t, &Screen{}, NewScreen(&out))
	file, err := os.Create(t.TempDir() + "/log")
	require.NoError(t, err)
	defer file.Close()
	assert.Same(t, file, NewScreen(file))

	v := newView(&out, time.Now())
	p := &picture{rows: []row{{node: "node-1", state: "Ready", step: "queued", wanted: 1}}}
	for _, now := range []v1alpha1.RolloutStatus{
		{Wave: "one", Message: "0 of 2 nodes"}, {Wave: "one", Message: "1 of 2 nodes"}, {Wave: "rest", Message: "the rest"},
		{Wave: "rest", Message: "1 node is held", HaltedTime: &metav1.Time{}},
	} {
		p.waves = []v1alpha1.RolloutStatus{now}
		v.show(p)
	}
	assert.Equal(t, 4, strings.Count(out.String(), "\n"), out.String())
	for _, said := range []string{"queued", "0 of 2 nodes", "the rest", "RolloutHalted: 1 node is held"} {
		assert.Equal(t, 1, strings.Count(out.String(), said), said)
	}
}
