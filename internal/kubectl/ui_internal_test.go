package kubectl

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/cli-runtime/pkg/genericclioptions"
)

// What is copied from the view reaches the cluster that the view shows, as the same person, from wherever it is pasted.
func TestACopiedCommandLeadsWhereTheViewDoes(t *testing.T) {
	here, err := os.Getwd()
	require.NoError(t, err)
	for given, want := range map[*[]string]string{
		{}: "",
		{"--context", "prod", "--as", "it's me", "--as-group=a", "--as-group=b,c"}:                          `--as='it'\''s me' --as-group=a --as-group=b,c --context=prod`,
		{"--kubeconfig", "my files/$HOME"}:                                                                  "--kubeconfig='" + filepath.Join(here, "my files/$HOME") + "'",
		{"--token", "secret", "--request-timeout", "5s", "--server", "https://[::1]:6443", "-n", "default"}: "--server='https://[::1]:6443'",
		{"--insecure-skip-tls-verify", "--context", ""}:                                                     "--context='' --insecure-skip-tls-verify=true",
	} {
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		genericclioptions.NewConfigFlags(true).AddFlags(flags)
		require.NoError(t, flags.Parse(*given))
		assert.Equal(t, want, leading(flags), *given)
	}
}
