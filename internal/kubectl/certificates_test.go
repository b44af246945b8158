package kubectl_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/certificate"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
)

// TestCertificates: what a person types who is to show that a drive was erased.
func TestCertificates(t *testing.T) {
	env := apitest.New(t)
	access := viewer(t, env, "node-firmware-viewer")
	out, said, code := shell(t, access, "certificates")
	assert.Equal(t, []any{"", "No certificate matches.\n", 0}, []any{out, said, code})

	text, err := certificate.NewKey()
	require.NoError(t, err)
	key, err := certificate.ReadKey(text)
	require.NoError(t, err)
	issue := func(name, serial string, held int32, hour int) *v1alpha1.SanitizationCertificate {
		at := metav1.NewTime(time.Date(2026, 11, 28, hour, 0, 0, 0, time.UTC))
		c, err := certificate.Sign(name, v1alpha1.SanitizationRecord{
			Sanitization: v1alpha1.Sanitization{
				StartTime:    at,
				SerialNumber: serial, Vendor: "Samsung", Model: "PM9A3", SizeBytes: 1920383410176, Method: "NVMe sanitize, block erase",
				Log: "log page 81h: SPROG FFFFh, SSTAT 0101h, SCDW10 0000000Ah", Samples: 64, HeldData: held, Seed: "0x2a", Version: "v0.1.0",
			},
			Term: v1alpha1.TermPurge, NodeName: "node-" + serial, Device: "disk", Job: "j", JobUID: "6f0e", CleaningPolicy: "handover",
			ConsentedBy: "alice", CompletionTime: at, Remains: "Firmware and logs.",
		}, key)
		require.NoError(t, err)
		return c
	}
	first := issue("first", "S1", 41, 9)
	require.NoError(t, env.Client.Create(t.Context(), first))
	require.NoError(t, env.Client.Create(t.Context(), issue("second", "S2", 0, 10)))

	out, said, code = shell(t, access, "certificates")
	assert.Equal(t, []any{"", 0}, []any{said, code})
	lines := strings.Split(strings.TrimSpace(out), "\n")
	require.Len(t, lines, 3)
	assert.Equal(t, "CERTIFICATE SERIAL NUMBER MODEL NODE TERM COMPLETED CONSENTED BY SIGNATURE", strings.Join(strings.Fields(lines[0]), " "))
	assert.Regexp(t, `^second +S2 +PM9A3 +node-S2 +Purge +\S+ \S+ +alice +unchanged$`, lines[1], "the newest first")
	for _, args := range [][]string{{"--node", "node-S1"}, {"--serial-number", "S1"}} {
		out, _, code = shell(t, access, append([]string{"certificates", "-o", "name"}, args...)...)
		assert.Equal(t, []any{"sanitizationcertificate.nodefirmware.io/first\n", 0}, []any{out, code})
	}
	_, said, code = shell(t, access, "certificates", "--node", "elsewhere")
	assert.Equal(t, []any{"No certificate matches.\n", 0}, []any{said, code})

	pem := filepath.Join(t.TempDir(), "installation.pem")
	require.NoError(t, os.WriteFile(pem, []byte(first.Spec.PublicKey), 0o600))
	out, _, code = shell(t, access, "certificates", "sanitizationcertificate.nodefirmware.io/first", "second", "--key", pem)
	assert.Zero(t, code)
	public, err := certificate.ReadPublicKey([]byte(first.Spec.PublicKey))
	require.NoError(t, err)
	for _, line := range []string{
		"Serial number   S1", "Size            1920383410176 bytes", "Sanitization    Purge (NIST SP 800-88)",
		"Verification    64 blocks of 4096 bytes, seed 0x2a; 41 held data before, none is as it was",
		"Verification    64 blocks of 4096 bytes, seed 0x2a; none held data before, so that the drive's log alone says it",
		"Completed       2026-11-28T09:00:00Z", "Asked for by    FirmwareJob j (6f0e) of CleaningPolicy handover", "Consented by    alice",
		"Tool            node-firmware-operator v0.1.0", "What remains    Firmware and logs.", "Signature       valid", "Key (SHA-256)   " + public.Fingerprint(),
	} {
		assert.Contains(t, strings.Split(out, "\n"), line)
	}

	forged := first.DeepCopy()
	forged.ResourceVersion, forged.Name, forged.Spec.Record.SerialNumber = "", "forged", "S3"
	require.NoError(t, env.Client.Create(t.Context(), forged))
	for _, args := range [][]string{nil, {"forged"}, {"-o", "json"}, {"--key", pem}} {
		out, said, code = shell(t, access, append([]string{"certificates"}, args...)...)
		assert.Equal(t, 1, code, args)
		assert.Contains(t, said, "the signature of certificate forged is not valid for the key "+public.Fingerprint())
		assert.NotContains(t, said, "certificate first")
		assert.NotEmpty(t, out)
	}
	other, err := certificate.NewKey()
	require.NoError(t, err)
	for wrong, why := range map[string]string{string(other): "it is no public key in PEM", "key": "it is no public key in PEM"} {
		require.NoError(t, os.WriteFile(pem, []byte(wrong), 0o600))
		_, said, code = shell(t, access, "certificates", "--key", pem)
		assert.Equal(t, 1, code)
		assert.Contains(t, said, why)
	}
	_, said, code = shell(t, access, "certificates", "third")
	assert.Equal(t, 1, code)
	assert.Contains(t, said, `there is no certificate "third". To list them: kubectl firmware certificates`)
}
