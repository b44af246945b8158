package kubectl

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// mostCompletions bounds what a shell is offered.
const mostCompletions = 1000

// completeNames offers the names of the objects of the kinds. One that cannot be read offers none: a shell has no place for errors.
func (s *session) completeNames(kinds ...string) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
		api, err := s.connect()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var out []cobra.Completion
		for _, kind := range kinds {
			names, _ := namesOf(c.Context(), api, kind)
			for _, name := range names {
				if strings.HasPrefix(name, toComplete) && !slices.Contains(args, name) && len(out) < mostCompletions {
					out = append(out, name)
				}
			}
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}
