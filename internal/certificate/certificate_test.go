package certificate_test

import (
	"bytes"
	"crypto/ecdsa"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/certificate"
)

var (
	began = metav1.NewTime(time.Date(2026, 11, 28, 9, 30, 0, 0, time.UTC))
	ended = metav1.NewTime(began.Add(time.Hour))
)

// erased is a job that erased one drive.
func erased() *v1alpha1.FirmwareJob {
	return &v1alpha1.FirmwareJob{
		ObjectMeta: metav1.ObjectMeta{Name: "storage-004-erase", UID: "6f0e", Annotations: map[string]string{v1alpha1.ConsentedByAnnotation: "alice"}},
		Spec: v1alpha1.FirmwareJobSpec{NodeName: "storage-004", Task: v1alpha1.JobTask{Type: v1alpha1.JobTypeSteps, Steps: []v1alpha1.RequestedStep{
			{Name: "erase", Device: "disk-1", Arguments: []v1alpha1.StepArgument{{Name: "serialNumber", Value: "S1"}}},
		}}},
		Status: v1alpha1.FirmwareJobStatus{Steps: []v1alpha1.JobStep{
			{Name: "drain", State: v1alpha1.StepSucceeded},
			{
				Name: "erase", Device: "disk-1", State: v1alpha1.StepSucceeded, CompletionTime: &ended, Sanitization: &v1alpha1.Sanitization{
					StartTime:    began,
					SerialNumber: "S1", Vendor: "Samsung", Model: "PM9A3 <1.9 TB>", SizeBytes: 1920383410176, Method: "NVMe sanitize, block erase",
					Log: "log page 81h: SPROG FFFFh, SSTAT 0101h, SCDW10 0000000Ah", Samples: 64, HeldData: 41, Seed: "0x3c1f136139113f34", Version: "v0.1.0",
				},
			},
		}},
	}
}

func signed(t *testing.T) (*v1alpha1.SanitizationCertificate, *ecdsa.PrivateKey) {
	t.Helper()
	text, err := certificate.NewKey()
	require.NoError(t, err)
	key, err := certificate.ReadKey(text)
	require.NoError(t, err)
	records, err := certificate.Records(erased())
	require.NoError(t, err)
	require.Len(t, records, 1)
	for name, r := range records {
		c, err := certificate.Sign(name, r, key)
		require.NoError(t, err)
		return c, key
	}
	return nil, nil
}

func publicKey(t *testing.T, c *v1alpha1.SanitizationCertificate) certificate.PublicKey {
	t.Helper()
	key, err := certificate.ReadPublicKey([]byte(c.Spec.PublicKey))
	require.NoError(t, err)
	return key
}

// TestRecordSaysAll: drive, method, term, times, log, samples, version, node, job, who consented, and what remains.
func TestRecordSaysAll(t *testing.T) {
	job := erased()
	job.Spec.Task.CleaningPolicyRef = &v1alpha1.CleaningPolicyReference{Name: "handover"}
	records, err := certificate.Records(job)
	require.NoError(t, err)
	r := records[certificate.Name(job, "disk-1")]
	assert.Contains(t, r.Remains, "taken out of use")
	r.Remains = ""
	assert.Equal(t, v1alpha1.SanitizationRecord{
		Sanitization: *job.Status.Steps[1].Sanitization, Term: v1alpha1.TermPurge, NodeName: "storage-004", Device: "disk-1", Job: "storage-004-erase", JobUID: "6f0e",
		CleaningPolicy: "handover", ConsentedBy: "alice", CompletionTime: ended,
	}, r)
}

func TestNameIsOfJobAndDrive(t *testing.T) {
	job := erased()
	name := certificate.Name(job, "disk-1")
	assert.Regexp(t, `^storage-004-erase-[0-9a-f]{16}$`, name)
	assert.Equal(t, name, certificate.Name(erased(), "disk-1"))
	assert.NotEqual(t, name, certificate.Name(job, "disk-2"))
	job.UID = "another"
	assert.NotEqual(t, name, certificate.Name(job, "disk-1"))
	job.Name = strings.Repeat("j", 253)
	assert.Len(t, certificate.Name(job, "disk-1"), 253)
	job.Name = strings.Repeat("j", 235) + ".example"
	assert.Regexp(t, `^j{235}-[0-9a-f]{16}$`, certificate.Name(job, "disk-1"), "a valid name")
}

// TestOnlyWhatWasAsked: a node that says more than the job asks it for gets no certificate of it.
func TestOnlyWhatWasAsked(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.FirmwareJob){
		"another serial number": func(j *v1alpha1.FirmwareJob) { j.Status.Steps[1].Sanitization.SerialNumber = "S2" },
		"another drive":         func(j *v1alpha1.FirmwareJob) { j.Status.Steps[1].Device = "disk-2" },
		"another step":          func(j *v1alpha1.FirmwareJob) { j.Status.Steps[1].Name = "verify-firmware" },
		"no step of that name":  func(j *v1alpha1.FirmwareJob) { j.Spec.Task.Steps[0].Name = "verify-erase" },
		"one that failed":       func(j *v1alpha1.FirmwareJob) { j.Status.Steps[1].State = v1alpha1.StepFailed },
		"one without an end":    func(j *v1alpha1.FirmwareJob) { j.Status.Steps[1].CompletionTime = nil },
	} {
		t.Run(name, func(t *testing.T) {
			job := erased()
			change(job)
			records, err := certificate.Records(job)
			require.ErrorContains(t, err, "which is not certified")
			assert.Empty(t, records)
		})
	}
	job := erased()
	job.Status.Steps[1].Sanitization = nil
	records, err := certificate.Records(job)
	require.NoError(t, err)
	assert.Empty(t, records)
}

// TestChangeIsFound: of a certificate nobody can change a thing, nor pass one off as another's.
func TestChangeIsFound(t *testing.T) {
	c, _ := signed(t)
	key := publicKey(t, c)
	require.NoError(t, key.Verify(c))
	plain, err := json.Marshal(c.Spec.Record)
	require.NoError(t, err)
	var fields map[string]any
	require.NoError(t, json.Unmarshal(plain, &fields))
	require.Len(t, fields, 19, "each is changed below, but for the policy, which there is none of")
	for name, value := range fields {
		switch v := value.(type) {
		case string:
			fields[name] = "2" + v[1:] + "2"
			if strings.HasSuffix(name, "Time") {
				fields[name] = "2020-01-01T00:00:00Z"
			}
		case float64:
			fields[name] = v + 1
		}
		text, err := json.Marshal(fields)
		require.NoError(t, err)
		changed := c.DeepCopy()
		require.NoError(t, json.Unmarshal(text, &changed.Spec.Record))
		require.ErrorContains(t, key.Verify(changed), "is not valid for the key "+key.Fingerprint(), name)
		fields[name] = value
	}
	other, _ := signed(t)
	require.Error(t, publicKey(t, other).Verify(c))
	stripped := c.DeepCopy()
	stripped.Spec.Signature = nil
	require.Error(t, key.Verify(stripped))
}

// TestSurvivesStorage: what the API server keeps and returns is what was signed.
func TestSurvivesStorage(t *testing.T) {
	c, _ := signed(t)
	stored, err := json.Marshal(c)
	require.NoError(t, err)
	var back v1alpha1.SanitizationCertificate
	require.NoError(t, json.Unmarshal(stored, &back))
	require.NoError(t, publicKey(t, c).Verify(&back))
}

// TestOtherToolsVerify: jq and OpenSSL alone are enough, as docs/concepts/erasing.md says.
func TestOtherToolsVerify(t *testing.T) {
	for _, tool := range []string{"openssl", "jq"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
	_, key := signed(t)
	job := erased()
	job.Annotations[v1alpha1.ConsentedByAnnotation] = "Zoë \u2028 \\u2029 <&> \x01"
	records, err := certificate.Records(job)
	require.NoError(t, err)
	c, err := certificate.Sign("odd", records[certificate.Name(job, "disk-1")], key)
	require.NoError(t, err)
	dir := t.TempDir()
	object, err := json.MarshalIndent(c, "", "  ")
	require.NoError(t, err)
	write := func(name string, data []byte) string {
		file := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(file, data, 0o600))
		return file
	}
	run := func(stdin []byte, name string, args ...string) []byte {
		command := exec.CommandContext(t.Context(), name, args...)
		command.Stdin = bytes.NewReader(stdin)
		out, err := command.Output()
		require.NoError(t, err)
		return out
	}
	record := run(object, "jq", "-cjS", ".spec.record")
	text, err := certificate.Text(c.Spec.Record)
	require.NoError(t, err)
	assert.Equal(t, string(text), string(record))
	said := run(record, "openssl", "dgst", "-sha256", "-verify", write("key.pem", []byte(c.Spec.PublicKey)), "-signature", write("signature", c.Spec.Signature))
	assert.Contains(t, string(said), "Verified OK")
}

func TestWrongKeysAreRefused(t *testing.T) {
	good, err := certificate.NewKey()
	require.NoError(t, err)
	c, _ := signed(t)
	for name, text := range map[string][]byte{
		"nothing": nil, "no PEM": []byte("key"), "a public key": []byte(c.Spec.PublicKey), "half a key": bytes.ReplaceAll(good, good[40:80], nil),
	} {
		_, err := certificate.ReadKey(text)
		require.Error(t, err, name)
	}
	for name, text := range map[string][]byte{"nothing": nil, "a private key": good} {
		_, err := certificate.ReadPublicKey(text)
		require.Error(t, err, name)
	}
}
