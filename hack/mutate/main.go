// Command mutate builds the product with deliberate defects, one at a time, and checks that its tests notice each of them. It
// writes a line about each and, as the last line, how many there are and how many were caught.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"slices"
	"syscall"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/mutate"
)

func main() {
	only := flag.String("only", "", "test only the mutants whose file or description matches this regular expression")
	skip := flag.Int("skip", 0, "leave out the first of them, which a run before has tested")
	parallel := flag.Int("parallel", runtime.NumCPU(), "how many mutants are tested at once")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	chosen, err := regexp.Compile(*only)
	if err != nil {
		fmt.Fprintln(os.Stderr, "read -only:", err)
		os.Exit(2)
	}
	mutants := slices.DeleteFunc(mutate.All(), func(m mutate.Mutant) bool {
		return !chosen.MatchString(m.File) && !chosen.MatchString(m.What)
	})
	mutants = mutants[min(max(*skip, 0), len(mutants)):]
	caught := 0
	err = mutate.Run(ctx, ".", mutants, *parallel, func(r mutate.Result) {
		if r.Verdict == mutate.Caught {
			caught++
		}
		fmt.Printf("%-8s %5.1fs  %s: %s (%s)\n", r.Verdict, r.Took.Seconds(), r.Mutant.File, r.Mutant.What, r.By)
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "test mutants:", err)
		os.Exit(2)
	}
	fmt.Printf("mutants: %d, caught: %d\n", len(mutants), caught)
	if caught != len(mutants) {
		os.Exit(1)
	}
}
