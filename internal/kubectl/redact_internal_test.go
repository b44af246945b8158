package kubectl

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTextsLoseTheirSecrets(t *testing.T) {
	for in, want := range map[string]string{
		"fetch https://anna:hunter2@fw.example.com/a.bin: 404":                          "fetch https://REDACTED@fw.example.com/a.bin: 404",
		"fetch https://anna:hunt/er2@fw.example.com/a.bin: 404":                         "fetch https://REDACTED@fw.example.com/a.bin: 404",
		"pull oci://mirror:5000/fw/nic@sha256:12":                                       "pull oci://mirror:5000/fw/nic@sha256:12",
		"fetch https://hunter2@fw.example.com/a.bin?sig=hunter2&x=1 failed":             "fetch https://REDACTED@fw.example.com/a.bin?REDACTED failed",
		"https://fw.example.com/#access_token=hunter2":                                  "https://fw.example.com/#REDACTED",
		"oci://fw.example.com/nic@sha256:3b3b":                                          "oci://fw.example.com/nic@sha256:3b3b",
		"Authorization: Bearer hunter2hunter2":                                          "Authorization: REDACTED",
		"sent bearer hunter2hunter2 to it":                                              "sent bearer REDACTED to it",
		"eyJhbGciOi.eyJzdWIi.c2ln is expired":                                           "REDACTED is expired",
		"AKIAABCDEFGHIJKLMNOP and ghp_0123456789abcdef0123":                             "REDACTED and REDACTED",
		`"password":"hunter2","user":"anna"`:                                            `"password":REDACTED,"user":"anna"`,
		`msg="x" API_KEY=hunter2 n=1`:                                                   `msg="x" API_KEY=REDACTED n=1`,
		`{"msg":"got {\"token\":\"hunter2\"}"}`:                                         `{"msg":"got {\"token\":REDACTED}"}`,
		`"secretRef":{"name":"mirror"}, --firmware-password-file=/etc/fw/pw`:            `"secretRef":{"name":"mirror"}, --firmware-password-file=/etc/fw/pw`,
		`"password":"a\"hunter2","b":1`:                                                 `"password":REDACTED,"b":1`,
		`"msg":"{\"password\":\"a\\\"hunter2\",\"b\":1}"`:                               `"msg":"{\"password\":REDACTED,\"b\":1}"`,
		"ran tool --admin-password hunter2 --force":                                     "ran tool --admin-password REDACTED --force",
		"curl -u anna:hunter2 fw.example.com":                                           "curl -u REDACTED fw.example.com",
		"-----BEGIN RSA PRIVATE KEY-----\nhunter2\n-----END RSA PRIVATE KEY-----\nrest": "REDACTED\nrest",
		"-----BEGIN PRIVATE KEY-----\nhunter2":                                          "REDACTED",
		"hunter2\n-----END PRIVATE KEY-----\nrest":                                      "REDACTED\nrest",
		"Cookie: a=b; session=hunter2\nrest":                                            "Cookie: REDACTED\nrest",
		"password=ab;hunter2 n=1":                                                       "password=REDACTED n=1",
		`tokens: ["a","hunter2"]`:                                                       `tokens: REDACTED`,
		"password: |\n":                                                                 "password: REDACTED\n",
		`--password "my hunter2" --force`:                                               `--password REDACTED --force`,
		"ipmitool -U root -P hunter2":                                                   "ipmitool -U REDACTED -P REDACTED",
		"curl --user=anna:hunter2 x, -uanna:hunter2":                                    "curl --user=REDACTED x, -uREDACTED",
		"--proxy=anna:hunter2@proxy:3128":                                               "--proxy=REDACTED@proxy:3128",
		"AdminPassword is hunter2 and was hunter3, A is 1 and was 2":                    "AdminPassword is REDACTED, A is 1 and was 2",
		"LS0tLS1CRUdJTiBQUklWQVRF":                                                      "REDACTED",
		`{"name":"AdminPassword","was":"hunter2","n":1}`:                                `{"n":1,"name":"AdminPassword","was":"REDACTED"}`,
		`2026-11-27T12:00:00Z {"msg":"x","token":"hunter2"}` + "\nrest":                 `2026-11-27T12:00:00Z {"msg":"x","token":"REDACTED"}` + "\nrest",
		`{"auths":{"r.io":{"auth":"hunter2"}}}`:                                         `{"auths":{"r.io":{"auth":"REDACTED"}}}`,
		"2026-11-27T12:00:00Z hunter2\n2026-11-27T12:00:00Z -----END PRIVATE KEY-----":  "2026-11-27T12:00:00Z REDACTED",
		"it begins\nsaid -----END PRIVATE KEY----- of it":                               "it begins\nsaid REDACTED of it",
		"Runs 22.41.1000 as desired.":                                                   "Runs 22.41.1000 as desired.",
	} {
		assert.Equal(t, want, redactText(in))
	}
}

func TestObjectsLoseTheirSecrets(t *testing.T) {
	var o map[string]any
	require.NoError(t, json.Unmarshal([]byte(`{
		"metadata": {"name": "x", "managedFields": [{"manager": "hunter2"}], "annotations": {
			"kubectl.kubernetes.io/last-applied-configuration": "hunter2", "nodefirmware.io/settings": "kept", "nodefirmware.io/at": "https://a:hunter2@kept.example.com"}},
		"spec": {"password": "hunter2", "credentials": {"pass": "hunter2", "in": [{"x": "hunter2"}]}, "tokens": ["hunter2"], "secretRef": {"name": "kept"}, "secretName": "kept", "n": 3,
			"parameters": [{"name": "AdminPassword", "value": "hunter2", "current": "hunter2"}, {"name": "SriovVFs", "value": "kept"}],
			"containers": [{"image": "kept", "env": [{"name": "A", "value": "hunter2"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "kept"}}}],
				"args": ["run", "--kept=1", "--token=hunter2", "--password", "hunter2", "--key-file=kept", 3, "--user", "hunter2", "--proxy=http://u:hunter2@kept"],
				"livenessProbe": {"httpGet": {"httpHeaders": [{"name": "X", "value": "hunter2"}]}}}]}}`), &o))
	redact(o)
	text, err := json.Marshal(o)
	require.NoError(t, err)
	assert.NotContains(t, string(text), "hunter2")
	assert.Equal(t, 10, strings.Count(string(text), "kept"), string(text))
	assert.NotContains(t, string(text), "managedFields")
}
