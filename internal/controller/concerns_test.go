package controller_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// R000-25: each concern has a reconciler of its own, which knows none of another; and that of the templates could neither fetch, serve nor write
// an image.
func TestEachConcernHasItsOwnReconciler(t *testing.T) {
	const module = "github.com/nodefirmware/node-firmware-operator/"
	list := func(args ...string) (lines []string) {
		t.Helper()
		out, err := exec.Command("go", append([]string{"list"}, args...)...).Output()
		require.NoError(t, err)
		return strings.Split(strings.TrimSpace(string(out)), "\n")
	}
	concerns := 0
	for _, line := range list("-f", "{{.ImportPath}} {{.Imports}}", "./...") {
		concern, imports, _ := strings.Cut(strings.TrimPrefix(line, module+"internal/controller"), " ")
		if concern == "" || strings.HasPrefix(concern, "/internal/") {
			continue // what puts them together, and what they share
		}
		concerns++
		for imported := range strings.FieldsSeq(strings.Trim(imports, "[]")) {
			other, is := strings.CutPrefix(imported, module+"internal/controller/")
			assert.False(t, is && !strings.HasPrefix(other, "internal/"), "%s knows %s", concern, other)
		}
	}
	assert.Greater(t, concerns, 10)
	reached := list("-deps", "./template")
	require.Contains(t, reached, module+"internal/match")
	for _, p := range reached {
		for _, service := range []string{"pkg/artifact", "internal/imageserver", "internal/node", "pkg/command", "pkg/driver"} {
			assert.False(t, strings.HasPrefix(p, module+service), "the reconciler of templates can reach %s", p)
		}
	}
}
