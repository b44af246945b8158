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

func TestVerbs(t *testing.T) {
	for command, want := range map[string]string{
		wayout.Retry("n1"):                                                               "kubectl firmware retry n1",
		wayout.Request("nfw", "n1", "release"):                                           "kubectl firmware release n1",
		wayout.Request("nfw", "n1", "scan"):                                              "kubectl firmware scan n1",
		wayout.Request("nfw", "n1", "adopt"):                                             "",
		wayout.Request("rp", "gpu", "resume"):                                            "kubectl firmware resume gpu",
		wayout.State("rp", "gpu", "Active"):                                              "kubectl firmware resume gpu",
		wayout.State("rp", "gpu", "Aborted"):                                             "",
		wayout.State("fwt", "nics", "Active"):                                            "kubectl firmware resume template/nics",
		wayout.State("fwq", "3b.15b3.101d", "Lifted"):                                    "kubectl firmware quarantine lift 3b.15b3.101d",
		wayout.State("fwq", "q", "Active") + " && " + wayout.State("fwq", "q", "Lifted"): "kubectl firmware quarantine lift q",
		wayout.Retry("n1") + " && " + wayout.State("rp", "gpu", "Active"):                "kubectl firmware retry n1 && kubectl firmware resume gpu",
		wayout.Retry("n1") + " && " + wayout.Edit("rp", "gpu"):                           "",
		wayout.Set("fwj", "j", `"cancel":{"mode":"Force"}`):                              "kubectl firmware cancel j --force",
		wayout.Set("fwj", "j", `"cancel":{"mode":"Graceful"}`):                           "kubectl firmware cancel j",
		wayout.State("fwc", "c", "Active"):                                               "",
		wayout.Edit("rp", "gpu"):                                                         "",
		"kubectl patch rp gpu --type merge -p '{\"spec\":{}}'":                           "",
	} {
		assert.Equal(t, want, wayout.Verb(command), command)
	}
}

// Each verb of the page's first table stands for the commands of the other tables, and no request of theirs lacks one.
func TestEveryRequestHasAVerb(t *testing.T) {
	text, err := os.ReadFile("../../docs/concepts/ways-out.md")
	require.NoError(t, err)
	typed := map[string]bool{}
	for _, c := range regexp.MustCompile("\\| `(kubectl patch [^`]+)` \\|").FindAllStringSubmatch(string(text), -1) {
		verb := wayout.Verb(c[1])
		if verb == "" {
			assert.Regexp(t, `"adopt|patch (fwc|clp)`, c[1], "a person has to type this")
			continue
		}
		typed[verb] = true
	}
	require.NotEmpty(t, typed)
	for verb := range typed {
		assert.Contains(t, string(text), "| `"+verb+"` |")
	}
}

func TestACommandGoesWhereTheFlagsLead(t *testing.T) {
	for command, want := range map[string]string{
		"kubectl edit fwt gpu":      "kubectl --context prod edit fwt gpu",
		"kubectl firmware retry n1": "kubectl firmware --context prod retry n1",
		"kubectl firmware quarantine lift q && kubectl firmware retry n1": "kubectl firmware --context prod quarantine lift q && kubectl firmware --context prod retry n1",
		wayout.Retry("kubectl"): strings.Replace(wayout.Retry("kubectl"), "kubectl", "kubectl --context prod", 1),
	} {
		assert.Equal(t, want, wayout.At("--context prod", command))
		assert.Equal(t, command, wayout.At("", command))
	}
}
