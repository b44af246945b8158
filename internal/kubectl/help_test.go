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
	commands := root.Commands()
	for _, c := range commands {
		commands = append(commands, c.Commands()...)
	}
	for _, c := range commands {
		names = append(names, strings.TrimPrefix(c.CommandPath(), "kubectl firmware "))
		assert.NotEmpty(t, c.Short, c.Name())
		assert.True(t, c.Runnable())
		assert.True(t, strings.HasPrefix(c.UseLine(), "kubectl firmware "), c.UseLine())
		c.Flags().VisitAll(func(f *pflag.Flag) { assert.NotEmpty(t, f.Usage, "%s --%s", c.Name(), f.Name) })
		for _, line := range strings.Split(c.Example, "\n") {
			if line != "" {
				tried, args, err := root.Find(strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "kubectl firmware ")))
				assert.NoError(t, err, line)
				assert.Equal(t, c.CommandPath(), tried.CommandPath(), line)
				assert.NoError(t, tried.ParseFlags(args), line)
			}
		}
	}
	assert.Equal(t, []string{"backup", "bundle", "cancel", "certificates", "diff", "exposure", "get", "history", "in-service", "out-of-service", "pause", "pin", "plan", "quarantine", "release", "report", "restore", "resume", "retry", "rollback", "scan", "simulate", "source", "status", "stop", "ui", "unpin", "version", "wait", "why",
		"quarantine confirm", "quarantine lift", "quarantine list"}, names)
	root.PersistentFlags().VisitAll(func(f *pflag.Flag) { assert.NotEmpty(t, f.Usage, f.Name) })
}
