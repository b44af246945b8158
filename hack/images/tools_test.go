package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// packagesOf are the packages of Debian that a tool needs in the daemon's image: its own, and those of the programs that it runs
// itself and that its own package does not depend on.
var packagesOf = map[string][]string{
	"mstflint": {"mstflint"},
	// Its Python modules run lspci, setpci, lsmod, modprobe and rmmod.
	"mstfwreset":      {"mstflint", "pciutils", "kmod"},
	"mstconfig":       {"mstflint"},
	"nvme":            {"nvme-cli"},
	"sg_inq":          {"sg3-utils"},
	"sg_logs":         {"sg3-utils"},
	"sg_opcodes":      {"sg3-utils"},
	"sg_luns":         {"sg3-utils"},
	"sg_persist":      {"sg3-utils"},
	"sg_read_buffer":  {"sg3-utils"},
	"sg_requests":     {"sg3-utils"},
	"sg_sanitize":     {"sg3-utils"},
	"sg_write_buffer": {"sg3-utils"},
	"sg_sat_identify": {"sg3-utils"},
	"fwupdtool":       {"fwupd"},
	"nsenter":         {"util-linux"},
	// Programs of this repository.
	"firmware-attributes": nil,
	"firmware-devlink":    nil,
	"firmware-nvme":       nil,
	"firmware-pci":        nil,
	"firmware-plugin":     nil,
	// Programs of the host, behind nsenter.
	"systemctl":       nil,
	"systemd-inhibit": nil,
	"busctl":          nil,
}

// toolsInCode are the first words of the command lines that the daemon's packages make.
func toolsInCode(t *testing.T) []string {
	t.Helper()
	found := map[string]bool{}
	for _, dir := range []string{"pkg/driver", "pkg/command", "internal/node"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				if strings.HasSuffix(path, "test") || d.Name() == "testdata" {
					return fs.SkipDir
				}
				for _, tool := range toolsOf(t, path) {
					found[tool] = true
				}
			}
			return err
		})
		require.NoError(t, err)
	}
	return slices.Sorted(maps.Keys(found))
}

// toolsOf looks into the files of one package: for a list of words that is called argv or becomes one, and for one that begins with
// a program that enters the host.
func toolsOf(t *testing.T, dir string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	var files []*ast.File
	constants := map[string]string{}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		files = append(files, file)
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.ValueSpec); ok && len(spec.Names) == len(spec.Values) {
				for i, name := range spec.Names {
					if text, ok := literal(spec.Values[i]); ok {
						constants[name.Name] = text
					}
				}
			}
			return true
		})
	}
	var out []string
	add := func(list ast.Expr) {
		words, ok := list.(*ast.CompositeLit)
		if !ok || len(words.Elts) == 0 {
			return
		}
		text, ok := literal(words.Elts[0])
		if name, isName := words.Elts[0].(*ast.Ident); isName {
			text, ok = constants[name.Name]
		}
		if ok {
			out = append(out, text)
		}
	}
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.KeyValueExpr:
				if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Argv" {
					add(n.Value)
				}
			case *ast.AssignStmt:
				if name, ok := n.Lhs[0].(*ast.Ident); ok && name.Name == "argv" {
					add(n.Rhs[0])
				}
			case *ast.CompositeLit:
				if len(n.Elts) > 1 {
					if first, _ := literal(n.Elts[0]); first == "nsenter" {
						second, _ := literal(n.Elts[1])
						if strings.HasPrefix(second, "-") { // and not a list of names
							out = append(out, first)
						}
					}
				}
			}
			return true
		})
	}
	return out
}

func literal(e ast.Expr) (string, bool) {
	l, ok := e.(*ast.BasicLit)
	if !ok || l.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(l.Value)
	return text, err == nil
}

// TestToolsAreFoundInTheCode: a search that finds nothing would prove nothing.
func TestToolsAreFoundInTheCode(t *testing.T) {
	found := toolsInCode(t)
	for _, tool := range []string{"mstflint", "mstfwreset", "fwupdtool", "sg_inq", "sg_logs", "sg_luns", "sg_opcodes", "sg_persist", "sg_read_buffer", "sg_requests", "sg_sanitize", "sg_sat_identify", "sg_write_buffer", "nsenter"} {
		assert.Contains(t, found, tool)
	}
}
