package mutate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// Verdict says what became of a mutant.
type Verdict string

// The verdicts.
const (
	// Caught: a test failed.
	Caught Verdict = "caught"
	// Survived: all tests passed.
	Survived Verdict = "SURVIVED"
	// Invalid: the defect does not apply, does not compile or is not tested at all, so nothing was shown.
	Invalid Verdict = "INVALID"
)

// Result is the verdict about one mutant.
type Result struct {
	Mutant  Mutant
	Verdict Verdict
	// By is the first test that failed, or why the mutant is invalid.
	By string
	// Took is how long building and testing took.
	Took time.Duration
}

// testTimeout bounds the tests of one mutant: a defect may make them wait for ever. The slowest package takes 2.5 minutes on two idle
// cores.
const testTimeout = 10 * time.Minute

// Run tests every mutant, at most parallel at once, and reports each result as soon as it is there; report is not called
// concurrently. The files of the repository below root are not touched: go test is told to read others in their place.
// First the same tests are run without a defect. The error says that these fail, or that the context ended.
func Run(ctx context.Context, root string, mutants []Mutant, parallel int, report func(Result)) error {
	root, err := filepath.Abs(root)
	if err != nil {
		return fmt.Errorf("find repository: %w", err)
	}
	dir, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return fmt.Errorf("make directory of mutants: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	r := runner{root: root, dir: dir}
	if err := r.sound(ctx, mutants); err != nil {
		return err
	}
	var mu sync.Mutex
	var group errgroup.Group
	group.SetLimit(max(1, parallel))
	for i, m := range mutants {
		group.Go(func() error {
			begun := time.Now()
			result := r.judge(ctx, i, m)
			result.Took = time.Since(begun)
			mu.Lock()
			defer mu.Unlock()
			if ctx.Err() == nil {
				report(result)
			}
			return nil
		})
	}
	return errors.Join(group.Wait(), ctx.Err())
}

type runner struct{ root, dir string }

// sound runs the tests without a defect: tests that fail anyway catch nothing.
func (r runner) sound(ctx context.Context, mutants []Mutant) error {
	tests := map[string][]string{} // by -run
	for _, m := range mutants {
		for _, p := range m.packages() {
			if !slices.Contains(tests[m.Run], p) {
				tests[m.Run] = append(tests[m.Run], p)
			}
		}
	}
	for run, packages := range tests {
		outcome, err := r.test(ctx, "", run, packages)
		switch {
		case err != nil:
			return err
		case outcome.failed != "" || outcome.broken != "":
			return fmt.Errorf("test without a defect: %s fails%s; repair that first", outcome.failed, outcome.broken)
		case !outcome.ran:
			return fmt.Errorf("test without a defect: no test matches -run %q in %s", run, strings.Join(packages, " "))
		}
	}
	return nil
}

func (r runner) judge(ctx context.Context, number int, m Mutant) Result {
	overlay, err := r.overlay(number, m)
	if err != nil {
		return Result{Mutant: m, Verdict: Invalid, By: err.Error()}
	}
	outcome, err := r.test(ctx, overlay, m.Run, m.packages())
	switch {
	case err != nil:
		return Result{Mutant: m, Verdict: Invalid, By: err.Error()}
	case outcome.broken != "":
		return Result{Mutant: m, Verdict: Invalid, By: outcome.broken}
	case outcome.failed != "":
		return Result{Mutant: m, Verdict: Caught, By: outcome.failed}
	}
	return Result{Mutant: m, Verdict: Survived, By: "every test of " + strings.Join(m.packages(), " ") + " passed"}
}

// overlay writes the file with the defect and what tells the go command to read it.
func (r runner) overlay(number int, m Mutant) (string, error) {
	content, err := m.apply(r.root)
	if err != nil {
		return "", err
	}
	changed := filepath.Join(r.dir, fmt.Sprintf("%d-%s", number, filepath.Base(m.File)))
	if err := os.WriteFile(changed, content, 0o600); err != nil {
		return "", fmt.Errorf("write mutant: %w", err)
	}
	text, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(r.root, filepath.FromSlash(m.File)): changed}})
	if err != nil {
		return "", fmt.Errorf("write overlay: %w", err)
	}
	overlay := filepath.Join(r.dir, fmt.Sprintf("%d.json", number))
	if err := os.WriteFile(overlay, text, 0o600); err != nil {
		return "", fmt.Errorf("write overlay: %w", err)
	}
	return overlay, nil
}

// outcome of one go test.
type outcome struct {
	// ran says that at least one test ended.
	ran bool
	// failed is the first test that failed, or the package where it ended without one.
	failed string
	// broken is what the compiler said.
	broken string
}

func (r runner) test(ctx context.Context, overlay, run string, packages []string) (outcome, error) {
	args := []string{"test", "-json", "-count=1", "-failfast", "-vet=off", "-timeout=" + testTimeout.String()}
	if overlay != "" {
		args = append(args, "-overlay="+overlay)
	}
	if run != "" {
		args = append(args, "-run="+run)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, packages...)...)
	cmd.Dir = r.root
	cmd.Env = append(os.Environ(), "RAPID_NOFAILFILE=1", "RAPID_SEED=1")  // every time the same, and nothing is kept
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it ends its tests, too
	cmd.WaitDelay = 10 * time.Second
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.Output()
	if ctx.Err() != nil {
		return outcome{}, ctx.Err()
	}
	out, parsed := parse(stdout)
	var exit *exec.ExitError
	switch {
	case parsed != nil:
		return outcome{}, parsed
	case err != nil && !errors.As(err, &exit):
		return outcome{}, fmt.Errorf("run go test: %w", err)
	case err != nil && out.failed == "" && out.broken == "":
		out.broken = strings.TrimSpace(stderr.String())
	}
	return out, nil
}

// event is a line of go test -json, as far as it is used.
type event struct {
	Action, Package, Test, FailedBuild, Output string
}

func parse(stdout []byte) (outcome, error) {
	var out outcome
	var compiler strings.Builder
	for line := range bytes.Lines(stdout) {
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			return outcome{}, fmt.Errorf("read what go test says: %w", err)
		}
		switch {
		case e.Action == "build-output":
			compiler.WriteString(e.Output)
		case e.FailedBuild != "":
			out.broken = strings.Join(strings.Fields(compiler.String()), " ")
		case e.Action == "pass" && e.Test != "":
			out.ran = true
		case e.Action == "fail" && e.Test != "":
			out.ran = true
			if out.failed == "" {
				out.failed = e.Test
			}
		case e.Action == "fail" && out.failed == "":
			out.failed = e.Package
		}
	}
	return out, nil
}
