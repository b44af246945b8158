package status

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/golden"
)

// speakers are where the texts of conditions, events and statuses are written, each with the kind that shows them; a directory stands
// for the packages below it. What drivers say is the cause in an error, and not here.
var speakers = map[string]string{
	"internal/status":                "Conditions",
	"internal/status/catalog.go":     "FirmwareCatalog",
	"internal/status/job.go":         "FirmwareJob",
	"internal/status/node.go":        "NodeFirmware",
	"internal/status/pins.go":        "NodeFirmware",
	"internal/status/device.go":      "NodeDevice",
	"internal/status/settings.go":    "NodeDevice",
	"internal/status/assignment.go":  "NodeDevice",
	"internal/status/template.go":    "FirmwareTemplate",
	"internal/status/onnode.go":      "Node",
	"internal/status/policy.go":      "RolloutPolicy",
	"internal/status/source.go":      "FirmwareSource",
	"internal/status/quarantine.go":  "FirmwareQuarantine",
	"internal/status/cleaning.go":    "CleaningPolicy",
	"internal/controller/cleaning":   "CleaningPolicy",
	"internal/controller/catalog":    "FirmwareCatalog",
	"internal/controller/source":     "FirmwareSource",
	"internal/controller/quarantine": "FirmwareQuarantine",
	"internal/quarantine":            "FirmwareQuarantine",
	"internal/controller/template":   "FirmwareTemplate",
	"internal/match":                 "NodeDevice",
	"internal/controller/rollout":    "RolloutPolicy",
	"internal/schedule":              "RolloutPolicy",
	"internal/neighbour":             "FirmwareJob",
	"internal/controller":            "FirmwareJob",
	"internal/controller/node":       "NodeFirmware",
	"internal/node":                  "FirmwareJob",
	"internal/maintenance":           "FirmwareJob",
	"internal/node/discovery":        "NodeDevice",
	"internal/node/health":           "NodeFirmware",
	"pkg/plan":                       "FirmwareJob",
	"pkg/step":                       "FirmwareJob",
	"pkg/host":                       "NodeDevice",
}

// TestEveryMessageIsReviewed: each text that a person can see in a status or an event is in one file, to be read from top to bottom. A
// new one fails here until somebody has read it in the difference of that file.
func TestEveryMessageIsReviewed(t *testing.T) {
	said, known := map[string]bool{}, map[string]bool{}
	for _, name := range constants(t, "../../api/v1alpha1", func(name, _ string) bool { return strings.HasPrefix(name, "Reason") }) {
		known[strings.TrimPrefix(name, "Reason")] = true
	}
	root := os.DirFS("../..")
	require.NoError(t, fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		kind := kindOf(name)
		if err != nil || d.IsDir() || kind == "" || path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") || strings.Contains(name, "test/") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("../..", name), nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		texts(file, known, func(reason, text string) { said[fmt.Sprintf("%-18s  %-22s  %s", kind, reason, text)] = true })
		return nil
	}))
	rules(t, said)
	var lines []string
	for line := range said {
		lines = append(lines, line)
	}
	slices.Sort(lines)
	require.Greater(t, len(lines), 200)
	golden.Equal(t, "testdata/messages.golden", strings.Join(lines, "\n")+"\n")
}

// kindOf is the kind of the longest entry of speakers that a file is of; empty for none.
func kindOf(file string) string {
	for at := file; at != "."; at = path.Dir(at) {
		if kind := speakers[at]; kind != "" {
			return kind
		}
	}
	return ""
}

// rules adds the messages with which the API server refuses an object.
func rules(t *testing.T, said map[string]bool) {
	marker := regexp.MustCompile(`XValidation:.*message="((?:[^"\\]|\\.)*)"`)
	files, err := filepath.Glob("../../api/v1alpha1/*_types.go")
	require.NoError(t, err)
	for _, f := range files {
		content, err := os.ReadFile(f)
		require.NoError(t, err)
		for _, m := range marker.FindAllStringSubmatch(string(content), -1) {
			said[fmt.Sprintf("%-18s  %-22s  %s", "(refused)", "Invalid", m[1])] = true
		}
	}
	policies, err := filepath.Glob("../../deploy/policy/*.yaml")
	require.NoError(t, err)
	for _, f := range policies {
		content, err := os.ReadFile(f)
		require.NoError(t, err)
		for _, m := range regexp.MustCompile(`(?m)^ +message: (.+)$`).FindAllStringSubmatch(string(content), -1) {
			said[fmt.Sprintf("%-18s  %-22s  %s", "(refused)", "Forbidden", m[1])] = true
		}
	}
}

// texts finds what a file says: literals of more than one word, put together with what surrounds them, … standing for a value. What errors,
// logs and flags say follows other rules and is left out. The reason is the nearest one that is named beside the text.
func texts(file *ast.File, known map[string]bool, say func(reason, text string)) {
	var visit func(n ast.Node, reason string)
	visit = func(n ast.Node, reason string) {
		switch n := n.(type) {
		case *ast.ImportSpec, *ast.Field:
			return
		case *ast.CallExpr:
			if silent(n.Fun) {
				return
			}
			reason = nearest(n, known, reason)
		case *ast.CompositeLit, *ast.AssignStmt, *ast.ReturnStmt, *ast.CaseClause:
			reason = nearest(n, known, reason)
		case *ast.BinaryExpr:
			if text, ok := concatenated(n); ok {
				sayIf(reason, text, say)
				return
			}
		case *ast.BasicLit:
			if text, ok := concatenated(n); ok {
				sayIf(reason, text, say)
			}
			return
		}
		ast.Inspect(n, func(child ast.Node) bool {
			if child == nil || child == n {
				return child == n
			}
			visit(child, reason)
			return false
		})
	}
	visit(file, "-")
}

var prose = regexp.MustCompile(`[A-Za-z]{2,}[,;:.]? [A-Za-z%…]`)

func sayIf(reason, text string, say func(reason, text string)) {
	if prose.MatchString(text) {
		say(reason, strings.ReplaceAll(text, "\n", `\n`))
	}
}

// silent reports whether what is said in a call is an error's, a log's or a program's.
func silent(fun ast.Expr) bool {
	s, ok := fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	of, _ := s.X.(*ast.Ident)
	switch s.Sel.Name {
	case "Errorf", "New", "MustCompile", "Info", "Error", "V", "Var", "StringVar", "BoolVar", "DurationVar", "panic":
		return s.Sel.Name != "New" || of != nil && of.Name == "errors"
	}
	return false
}

// concatenated is the text of a literal, or of texts that are added.
func concatenated(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.ParenExpr:
		return concatenated(e.X)
	case *ast.BasicLit:
		if e.Kind != token.STRING {
			return "", false
		}
		text, err := strconv.Unquote(e.Value)
		return text, err == nil
	case *ast.BinaryExpr:
		if e.Op != token.ADD {
			return "", false
		}
		left, hasLeft := concatenated(e.X)
		right, hasRight := concatenated(e.Y)
		if !hasLeft {
			left = "…"
		}
		if !hasRight {
			right = "…"
		}
		return left + right, hasLeft || hasRight
	}
	return "", false
}

// nearest is the reason that a node names itself, not in a block of its own; otherwise that of what surrounds it. The constants of the
// API are ReasonX, and those of the packages below it X.
func nearest(n ast.Node, known map[string]bool, outer string) string {
	found := outer
	ast.Inspect(n, func(child ast.Node) bool {
		name := ""
		switch child := child.(type) {
		case *ast.BlockStmt, *ast.FuncLit:
			return false
		case *ast.CaseClause:
			return child == n
		case *ast.SelectorExpr:
			if of, ok := child.X.(*ast.Ident); ok {
				name = strings.TrimPrefix(child.Sel.Name, "Reason")
				if token.IsExported(of.Name) || len(of.Name) < 4 { // a field, not a package
					name = ""
				}
			}
		case *ast.Ident:
			name = child.Name
		}
		if known[name] && found == outer {
			found = name
		}
		_, selects := child.(*ast.SelectorExpr)
		return !selects
	})
	return found
}
