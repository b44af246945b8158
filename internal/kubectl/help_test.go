package kubectl

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"k8s.io/cli-runtime/pkg/genericclioptions"
)

func TestEveryCommandAndFlagHasHelp(t *testing.T) {
	root := (&session{flags: genericclioptions.NewConfigFlags(true)}).root()
	var names []string
	for _, c := range root.Commands() {
		names = append(names, c.Name())
		assert.NotEmpty(t, c.Short, c.Name())
		assert.True(t, c.Runnable())
		assert.True(t, strings.HasPrefix(c.UseLine(), "kubectl firmware "), c.UseLine())
		c.Flags().VisitAll(func(f *pflag.Flag) { assert.NotEmpty(t, f.Usage, "%s --%s", c.Name(), f.Name) })
		for _, line := range strings.Split(c.Example, "\n") {
			if line != "" {
				tried, args, err := root.Find(strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "kubectl firmware ")))
				assert.NoError(t, err, line)
				assert.Equal(t, c, tried, line)
				assert.NoError(t, tried.ParseFlags(args), line)
			}
		}
	}
	assert.Equal(t, []string{"get", "status", "version", "why"}, names)
	root.PersistentFlags().VisitAll(func(f *pflag.Flag) { assert.NotEmpty(t, f.Usage, f.Name) })
}
