package apitest

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/golden"
)

// WayOut is a row of docs/concepts/ways-out.md.
type WayOut struct {
	Kind, Reason string
	// Command ends the state, with words in capitals for names; empty where nothing has to be typed.
	Command string
}

// Key names the row.
func (w WayOut) Key() string { return w.Kind + " " + w.Reason }

var (
	wayOutRow   = regexp.MustCompile("^\\| `(\\w+)` \\| .+ \\| (?:`(kubectl [^`]+)`|nothing: .+) \\|$")
	placeholder = regexp.MustCompile(`\b[A-Z]{3,}\b`)
)

// WaysOut are the rows of the page. The directory is the root of the repository.
func WaysOut(t *testing.T, root string) []WayOut {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs/concepts/ways-out.md"))
	require.NoError(t, err)
	var out []WayOut
	kind := ""
	for _, line := range strings.Split(string(text), "\n") {
		if heading, is := strings.CutPrefix(line, "## "); is {
			kind = heading
		}
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		row := wayOutRow.FindStringSubmatch(line)
		require.NotNil(t, row, "neither a command nor why none is needed: %s", line)
		out = append(out, WayOut{kind, row[1], row[2]})
	}
	require.NotEmpty(t, out)
	return out
}

// in is the command of the row with the names that a message has for it; empty where the message has it not, or not where it can be copied
// to the end of the line, or up to two spaces.
func (w WayOut) in(message string) string {
	exp := placeholder.ReplaceAllString(regexp.QuoteMeta(w.Command), `[^ ]+`)
	found := regexp.MustCompile(`(?:^|: )(` + exp + `(?: && ` + exp + `)?)(?:  |$)`).FindStringSubmatch(message)
	if found == nil {
		return ""
	}
	return found[1]
}

// TypeWayOut ends a state as a person does who knows nothing but the object: it types the command of the row as a condition of the object
// with the reason of the row, or else an event about it, has it in its message. Main compares which rows a package typed with TypedFile.
func (e *Env) TypeWayOut(t *testing.T, root, key string, o client.Object) {
	t.Helper()
	rows := WaysOut(t, root)
	at := slices.IndexFunc(rows, func(w WayOut) bool { return w.Key() == key })
	require.GreaterOrEqual(t, at, 0, "no row %s", key)
	w := rows[at]
	require.NotEmpty(t, w.Command, key)
	kind, err := apiutil.GVKForObject(o, e.Scheme)
	require.NoError(t, err)
	require.Equal(t, w.Kind, kind.Kind)
	messages := e.messages(t, o, w.Reason)
	for _, message := range messages {
		if command := w.in(message); command != "" {
			e.Kubectl(t, command)
			typed.Store(key, true)
			return
		}
	}
	require.Fail(t, "the object says the command in no message", "%s: %s\n%s", key, w.Command, strings.Join(messages, "\n"))
}

// messages are what the conditions of the object, as the API server has it, and the events about it say with that reason.
func (e *Env) messages(t *testing.T, o client.Object, reason string) (out []string) {
	t.Helper()
	require.NoError(t, e.Client.Get(t.Context(), client.ObjectKeyFromObject(o), o))
	raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	require.NoError(t, err)
	conditions, _, err := unstructured.NestedSlice(raw, "status", "conditions")
	require.NoError(t, err)
	for _, c := range conditions {
		if said := c.(map[string]any); said["reason"] == reason {
			out = append(out, fmt.Sprint(said["message"]))
		}
	}
	var list eventsv1.EventList
	require.NoError(t, e.Client.List(t.Context(), &list))
	for _, event := range list.Items {
		if event.Regarding.UID == o.GetUID() && event.Reason == reason {
			out = append(out, event.Note)
		}
	}
	return out
}

// TypedFile lists the rows whose commands the tests of a package type, one a line. It is in the directory of the package.
const TypedFile = "testdata/ways.golden"

// typed are the rows whose commands were typed in this process.
var typed sync.Map

// checkTyped compares the rows that were typed with TypedFile, when every test of the package has run.
func checkTyped() error {
	for _, some := range []string{"test.run", "test.skip", "test.list"} {
		if f := flag.Lookup(some); f != nil && f.Value.String() != "" {
			return nil
		}
	}
	var rows []string
	typed.Range(func(key, _ any) bool { rows = append(rows, key.(string)+"\n"); return true })
	slices.Sort(rows)
	got := strings.Join(rows, "")
	if os.Getenv(golden.Update) != "" && got != "" {
		return os.WriteFile(TypedFile, []byte(got), 0o644)
	}
	want, err := os.ReadFile(TypedFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if string(want) != got {
		return fmt.Errorf("the tests of this package typed what ends\n%sand %s has\n%srun with %s=1 if the new rows are right", got, TypedFile, want, golden.Update)
	}
	return nil
}
