package kubectl

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/reading"
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

// namesOf lists the names of a kind.
func namesOf(ctx context.Context, c client.Reader, kind string) (out []string, err error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind + "List"))
	err = reading.Each(ctx, c, list, nil, func(o *metav1.PartialObjectMetadata) error {
		out = append(out, o.Name)
		return nil
	})
	return out, err
}
