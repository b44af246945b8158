package docs_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// TestSteps: the page names every step of this product with its interface, priority and deadline, and no other (R003-56).
func TestSteps(t *testing.T) {
	text, err := os.ReadFile("concepts/steps.md")
	require.NoError(t, err)
	type row struct{ interfaces, priorities, deadline string }
	want := map[string]row{}
	for _, d := range plan.Definitions() {
		r := want[string(d.Kind)]
		r.interfaces, r.priorities = join(r.interfaces, d.Interface), join(r.priorities, fmt.Sprint(d.Priority))
		if r.deadline = "none"; d.Deadline > 0 {
			r.deadline = fmt.Sprintf("%d min", d.Deadline/time.Minute)
		}
		want[string(d.Kind)] = r
	}
	rows := regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\| ([^|]+) \\|(.*)\\| ([^|]+) \\|$").FindAllStringSubmatch(string(text), -1)
	for _, m := range rows {
		r, ok := want[m[1]]
		require.True(t, ok, "there is no step %s", m[1])
		assert.Equal(t, r.deadline, m[4], "deadline of %s", m[1])
		if priorities := strings.TrimSpace(strings.Split(m[3], "|")[0]); r.priorities[0] != '0' {
			assert.Equal(t, r.priorities, priorities, "priority of %s", m[1])
		}
		assert.ElementsMatch(t, strings.Split(r.interfaces, ", "), strings.Split(m[2], ", "), "interfaces of %s", m[1])
		delete(want, m[1])
	}
	assert.Empty(t, want, "steps the page does not name")
	example, err := os.ReadFile("examples/steps-job.yaml")
	require.NoError(t, err)
	_, manifest, _ := strings.Cut(string(example), "apiVersion:")
	assert.Contains(t, string(text), "apiVersion:"+manifest, "the page shows the example as it is")
}

// TestPagesAnswerWhatTheyMust: how steps run, their order and effect, how they are switched and moved, how interfaces differ,
// what happens on a failure and how long it takes (R003-51, R003-56); and what remains open to attack (R003-44).
func TestPagesAnswerWhatTheyMust(t *testing.T) {
	for page, parts := range map[string][]string{
		"concepts/steps.md": {
			"\n## What runs in an update\n", "\n## Steps that are off by default\n", "\nDifferences between the interfaces:\n", "\n## Running steps by hand\n",
			"\n## Switching on and off, and changing the order\n", "\n--step-priority=disk.flash=0 ", "\n## When a step fails\n",
			"\n## How long it takes\n", "| a reboot | 15 minutes to begin;",
		},
		"concepts/security.md":    {"\n## What a node that was taken over can do\n", "is root on its node", "Lie about its hardware", "Quarantine images"},
		"concepts/transaction.md": {"\n## What is not protected\n", "Power loss in the middle of a write", "A lost disk"},
	} {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, part := range parts {
			assert.Contains(t, string(text), part, "%s does not have %q", page, part)
		}
	}
	assert.Equal(t, 15*time.Minute, step.DefaultLimits().Reboot)
}

func join(list, item string) string {
	if list == "" {
		return item
	}
	return list + ", " + item
}
