// Command count prints what a person has to learn, and how much code there is to keep: the fields and reasons of the API, and the
// lines of code of the product, of the test world and of the tests.
package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"io/fs"
	"log"
	"os"
	"path"
	"reflect"
	"strings"
)

// A figure is one count and the most that it may be. Whoever raises a bound says why in the commit that does.
type figure struct {
	name  string
	count int
	most  int
}

// testWorld are the directories of what only tests, labs and builds use; nothing of it is in an image. Directories named like drivertest are
// part of it wherever they are.
var testWorld = []string{"internal/testing", "internal/simulation", "cmd/firmware-lab", "cmd/firmware-lab-guest", "cmd/firmware-simtools", "hack"}

func main() {
	log.SetFlags(0)
	log.SetPrefix("count: ")
	figures, err := count(os.DirFS("."))
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range figures {
		fmt.Printf("%-10s %6d   (at most %d)\n", f.name+":", f.count, f.most)
	}
}

// count reads the Go files of a checkout.
func count(tree fs.FS) ([]figure, error) {
	fields := figure{name: "fields", most: 506}
	reasons := figure{name: "reasons", most: 80}
	product := figure{name: "product", most: 80850}
	world := figure{name: "testWorld", most: 34150}
	tests := figure{name: "tests", most: 107000}
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if base := d.Name(); name != "." && (strings.HasPrefix(base, ".") || base == "testdata" || base == "bin") {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		source, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, source, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return fmt.Errorf("parse %s: %w", name, err)
		}
		isTest := strings.HasSuffix(name, "_test.go")
		if ast.IsGenerated(file) {
			return nil
		}
		if path.Dir(name) == "api/v1alpha1" && !isTest {
			fields.count += jsonTags(file)
			reasons.count += reasonConstants(file)
		}
		switch {
		case strings.HasPrefix(name, "docs/"): // an example
		case isTest:
			tests.count += lines(source)
		case isTestWorld(path.Dir(name)):
			world.count += lines(source)
		default:
			product.count += lines(source)
		}
		return nil
	})
	return []figure{fields, reasons, product, world, tests}, err
}

func isTestWorld(dir string) bool {
	for _, top := range testWorld {
		if dir == top || strings.HasPrefix(dir, top+"/") {
			return true
		}
	}
	for part := range strings.SplitSeq(dir, "/") {
		if strings.HasSuffix(part, "test") {
			return true
		}
	}
	return false
}

// jsonTags counts the fields of a file's types that have a JSON tag, inline ones too.
func jsonTags(file *ast.File) int {
	n := 0
	ast.Inspect(file, func(node ast.Node) bool {
		f, isField := node.(*ast.Field)
		if !isField || f.Tag == nil {
			return true
		}
		if _, has := reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Lookup("json"); has {
			n += cmp.Or(len(f.Names), 1)
		}
		return true
	})
	return n
}

// reasonConstants counts the constants of a file that name a reason of a condition.
func reasonConstants(file *ast.File) int {
	n := 0
	for _, d := range file.Decls {
		g, isGeneral := d.(*ast.GenDecl)
		if !isGeneral || g.Tok != token.CONST {
			continue
		}
		for _, s := range g.Specs {
			for _, name := range s.(*ast.ValueSpec).Names {
				if strings.HasPrefix(name.Name, "Reason") {
					n++
				}
			}
		}
	}
	return n
}

// lines counts the lines of a file that hold code: no blank lines and no comments.
func lines(source []byte) int {
	files := token.NewFileSet()
	file := files.AddFile("", files.Base(), len(source))
	var s scanner.Scanner
	s.Init(file, source, nil, 0)
	n, last := 0, 0
	for {
		pos, tok, text := s.Scan()
		if tok == token.EOF {
			return n
		}
		if tok == token.SEMICOLON && text == "\n" {
			continue
		}
		first := file.Line(pos)
		end := first + strings.Count(text, "\n")
		n += end - max(first, last+1) + 1
		last = end
	}
}
