package trial

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Check is one thing that a lab proves on a scene S.
type Check[S any] struct {
	Group, Name string
	// Run returns details for the output.
	Run func(ctx context.Context, s S) (string, error)
}

// New is a check: lists of them are read by people.
func New[S any](group, name string, run func(ctx context.Context, s S) (string, error)) Check[S] {
	return Check[S]{group, name, run}
}

// Checks run in their order on one machine. All build on those of the first group.
type Checks[S any] []Check[S]

// Groups are the names of the groups, in order.
func (l Checks[S]) Groups() []string {
	var out []string
	for _, c := range l {
		if !slices.Contains(out, c.Group) {
			out = append(out, c.Group)
		}
	}
	return out
}

// Of are the checks of the groups, and of the first one; all for no groups.
func (l Checks[S]) Of(groups []string) (Checks[S], error) {
	all := l.Groups()
	for _, g := range groups {
		if !slices.Contains(all, g) {
			return nil, fmt.Errorf("there are no checks %q: %s", g, strings.Join(all, ", "))
		}
	}
	return slices.DeleteFunc(slices.Clone(l), func(c Check[S]) bool {
		return len(groups) > 0 && c.Group != all[0] && !slices.Contains(groups, c.Group)
	}), nil
}

// Do runs the check and prints its line. An error names the check.
func (c Check[S]) Do(ctx context.Context, s S, say func(string, ...any)) error {
	began := time.Now()
	detail, err := c.Run(ctx, s)
	took := time.Since(began).Seconds()
	if err != nil {
		say("FAIL  %6.1f s  %s", took, c.Name)
		return fmt.Errorf("%s: %w", c.Name, err)
	}
	if detail != "" {
		detail = ": " + detail
	}
	say("ok    %6.1f s  %s%s", took, c.Name, detail)
	return nil
}
