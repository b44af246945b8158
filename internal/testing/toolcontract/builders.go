package toolcontract

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
)

// Builders are the functions and methods of the Go package in a directory, without its tests, that have a literal of the type
// command.Command: the places where its command lines come from.
func Builders(dir string) ([]string, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, fmt.Errorf("list package: %w", err)
	}
	var names []string
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, fmt.Errorf("parse package: %w", err)
		}
		for _, d := range file.Decls {
			if makesCommand(d) {
				names = append(names, nameOf(d))
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// nameOf is the name of a function; of a variable, what it is.
func nameOf(d ast.Decl) string {
	if f, ok := d.(*ast.FuncDecl); ok {
		return f.Name.Name
	}
	return "a variable"
}

// makesCommand reports whether a declaration has a command that is not empty: an empty one is what a function returns with its
// error.
func makesCommand(d ast.Decl) bool {
	found := false
	ast.Inspect(d, func(n ast.Node) bool {
		if literal, ok := n.(*ast.CompositeLit); ok && len(literal.Elts) > 0 {
			list, isList := literal.Type.(*ast.ArrayType)
			found = found || isCommand(literal.Type) || isList && isCommand(list.Elt) && slices.ContainsFunc(literal.Elts, isLiteral)
		}
		return true
	})
	return found
}

func isLiteral(e ast.Expr) bool {
	_, ok := e.(*ast.CompositeLit)
	return ok
}

func isCommand(e ast.Expr) bool {
	typ, ok := e.(*ast.SelectorExpr)
	if !ok || typ.Sel.Name != "Command" {
		return false
	}
	pkg, ok := typ.X.(*ast.Ident)
	return ok && pkg.Name == "command"
}
