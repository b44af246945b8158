package lab

import (
	"context"
	"strings"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/nodefirmware/node-firmware-operator/internal/kubectl"
)

// Ask types kubectl firmware with the words of each question as the lab's administrator, and shows questions and answers.
func (l *Lab) Ask(ctx context.Context, questions ...string) {
	for _, q := range questions {
		var answer strings.Builder
		kubectl.Run(ctx, append(strings.Fields(q), "--kubeconfig", l.KubeconfigPath()), genericiooptions.IOStreams{In: strings.NewReader(""), Out: &answer, ErrOut: &answer})
		l.say("\n$ kubectl firmware %s\n%s", q, strings.TrimSuffix(answer.String(), "\n"))
	}
}
