package apitest

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/kubectl/pkg/cmd/annotate"
	"k8s.io/kubectl/pkg/cmd/apply"
	"k8s.io/kubectl/pkg/cmd/create"
	kubectldelete "k8s.io/kubectl/pkg/cmd/delete"
	"k8s.io/kubectl/pkg/cmd/describe"
	"k8s.io/kubectl/pkg/cmd/drain"
	"k8s.io/kubectl/pkg/cmd/edit"
	"k8s.io/kubectl/pkg/cmd/get"
	"k8s.io/kubectl/pkg/cmd/label"
	"k8s.io/kubectl/pkg/cmd/patch"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/cmd/wait"
)

// Kubectl runs what a person types into a shell: kubectl commands, with the code of kubectl.
func (e *Env) Kubectl(t *testing.T, line string) {
	t.Helper()
	Kubectl(t, e.ControlPlane.KubeconfigPath(), line)
}

// Kubectl is Env.Kubectl with the access of a kubeconfig file. It returns what kubectl said.
func Kubectl(t *testing.T, kubeconfig, line string) string {
	t.Helper()
	var all strings.Builder
	for _, command := range strings.Split(line, " && ") {
		words, err := words(command)
		require.NoError(t, err, command)
		require.NotEmpty(t, words)
		require.Equal(t, "kubectl", words[0])
		said, err := kubectl(t, kubeconfig, words[1:])
		require.NoError(t, err, "%s: %s", command, said)
		all.WriteString(said)
	}
	return all.String()
}

func kubectl(t *testing.T, kubeconfig string, args []string) (said string, err error) {
	var out bytes.Buffer
	streams := genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &out, ErrOut: &out}
	access, cache := genericclioptions.NewConfigFlags(false), t.TempDir()
	access.KubeConfig, access.CacheDir = &kubeconfig, &cache
	f := cmdutil.NewFactory(access)
	root := &cobra.Command{Use: "kubectl", SilenceUsage: true, SilenceErrors: true}
	access.AddFlags(root.PersistentFlags())
	root.AddCommand(patch.NewCmdPatch(f, streams), annotate.NewCmdAnnotate("kubectl", f, streams), kubectldelete.NewCmdDelete(f, streams),
		drain.NewCmdUncordon(f, streams), edit.NewCmdEdit(f, streams), apply.NewCmdApply("kubectl", f, streams), get.NewCmdGet("kubectl", f, streams),
		describe.NewCmdDescribe("kubectl", f, streams), label.NewCmdLabel(f, streams), create.NewCmdCreate(f, streams), wait.NewCmdWait(access, streams))
	root.SetArgs(args)
	// Where kubectl ends with an error, its code ends the process.
	type fatal struct{ error }
	cmdutil.BehaviorOnFatal(func(message string, _ int) { panic(fatal{errors.New(message)}) })
	defer cmdutil.DefaultBehaviorOnFatal()
	defer func() {
		said = out.String()
		switch f := recover().(type) {
		case nil:
		case fatal:
			err = f
		default:
			panic(f)
		}
	}()
	return "", root.ExecuteContext(t.Context())
}

// words are those of a command as a shell reads them: quotes, backslashes in double quotes, and the present time.
func words(line string) ([]string, error) {
	line = strings.ReplaceAll(line, "$(date -u +%FT%TZ)", time.Now().UTC().Format(time.RFC3339Nano))
	var out []string
	var word strings.Builder
	var quote rune
	begun, escaped := false, false
	for _, c := range line {
		switch {
		case escaped:
			word.WriteRune(c)
			escaped = false
		case c == '\\' && quote != '\'':
			begun, escaped = true, true
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			begun, quote = true, c
		case quote == 0 && c == ' ':
			if begun {
				out = append(out, word.String())
			}
			word.Reset()
			begun = false
		case quote != '\'' && strings.ContainsRune("$`", c), quote == 0 && strings.ContainsRune(";|&<>()*?#~", c):
			return nil, fmt.Errorf("what a shell does with %q is not known here", c)
		default:
			begun = true
			word.WriteRune(c)
		}
	}
	if quote != 0 || escaped {
		return nil, errors.New("a quote is not closed")
	}
	if begun {
		out = append(out, word.String())
	}
	return out, nil
}
