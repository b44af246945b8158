package cli_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/cli"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/golden"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/simhost"
)

// declares loads a file that declares settings for the card with the reset.
func (s *stage) declares(t *testing.T, rule string) cli.Documents {
	t.Helper()
	docs, err := cli.Load([]string{s.write(t, `
apiVersion: nodefirmware.io/v1alpha1
kind: ConfigurationTemplate
metadata: {name: virtual-functions}
spec:
  nodeSelector: {matchLabels: {pool: gpu}}
  rules:
  - name: cx6
    selector: {class: NIC, vendor: "15b3", models: [101d]}
`+rule)})
	require.NoError(t, err)
	return docs
}

// planned is the plan for the documents.
func (s *stage) planned(t *testing.T, docs cli.Documents) cli.Plan {
	t.Helper()
	found := s.scan(t)
	labels := map[string]string{"pool": "gpu"}
	has, err := cli.ReadDeclared(t.Context(), found, docs, labels, s.hardware.Drivers)
	require.NoError(t, err)
	p, err := cli.MakePlan(found, docs, cli.Describe(docs.Sources), labels, has)
	require.NoError(t, err)
	return p
}

// configuring is apply for settings that are declared.
func (s *stage) configuring(t *testing.T, docs cli.Documents, steps *bytes.Buffer) cli.Applying {
	t.Helper()
	a := s.applying(t, steps)
	a.Docs = docs
	return a
}

func (s *stage) setting(t *testing.T, name string) string {
	t.Helper()
	all, err := s.settings(t, "0000:3b:00.0")
	require.NoError(t, err)
	for _, p := range all.Devices[0].Parameters {
		if p.Name == name {
			return *p.Current
		}
	}
	require.Fail(t, "no setting "+name)
	return ""
}

// Declared settings are planned with what each costs, applied, read back, and then nothing is left to do (R001-24).
func TestDeclaredSettingsAreAppliedOnce(t *testing.T) {
	s := newStage(t)
	docs := s.declares(t, `
    settings: {numVFs: 8}
    parameters: [{name: PCI_ATOMIC_MODE, value: "1"}]
`)
	p := s.planned(t, docs)
	golden.Equal(t, "testdata/plan-settings.table", print(t, cli.Table, p))
	golden.Equal(t, "testdata/plan-settings.json", print(t, cli.JSON, p))
	var steps bytes.Buffer
	out, err := cli.Apply(t.Context(), s.configuring(t, docs, &steps))
	require.NoError(t, err, "%s", &steps)
	assert.Equal(t, "Complete", out.Result)
	require.Len(t, out.Devices, 1)
	assert.Equal(t, []string{"numVFs=8", "PCI_ATOMIC_MODE=1"}, out.Devices[0].Settings)
	assert.Equal(t, "8", s.setting(t, "numVFs"))
	assert.Equal(t, "8", s.setting(t, "NUM_OF_VFS"))
	assert.True(t, strings.HasSuffix(s.setting(t, "PCI_ATOMIC_MODE"), "(1)"))
	asked, err := s.RebootRequested()
	require.NoError(t, err)
	assert.False(t, asked, "a reset of the card is enough")

	out, err = cli.Apply(t.Context(), s.configuring(t, docs, &steps))
	require.NoError(t, err)
	assert.Equal(t, "NothingToDo", out.Result)
	assert.Contains(t, steps.String(), "no settings are changed: in force already")
}

// Firmware and settings of one card go in one job.
func TestDeclaredSettingsGoWithFirmware(t *testing.T) {
	s := newStage(t)
	docs := s.declares(t, "    settings: {numVFs: 8}\n")
	var steps bytes.Buffer
	a := s.applying(t, &steps)
	a.Docs.Configurations = docs.Configurations
	a.Docs.Templates[0].Spec.Rules = a.Docs.Templates[0].Spec.Rules[:1]
	p := s.planned(t, a.Docs)
	assert.Contains(t, print(t, cli.Table, p), "1 of")
	out, err := cli.Apply(t.Context(), a)
	require.NoError(t, err, "%s", &steps)
	assert.Equal(t, "Complete", out.Result)
	running, err := s.Running("nic0")
	require.NoError(t, err)
	assert.Equal(t, "22.41.1000", running)
	assert.Equal(t, "8", s.setting(t, "numVFs"))
}

// What cannot be is said by plan and apply, and changes nothing.
func TestDeclaredSettingsThatCannotBeAreSaid(t *testing.T) {
	for want, rule := range map[string]string{
		"the nearest are NUM_OF_VFS": "    parameters: [{name: NUM_OF_VF, value: \"8\"}]\n",
		"the policy is Validate":     "    policy: Validate\n    settings: {numVFs: 8}\n",
		"numVFs and NUM_OF_VFS":      "    settings: {numVFs: 8}\n    parameters: [{name: NUM_OF_VFS, value: \"8\"}]\n",
	} {
		t.Run(want, func(t *testing.T) {
			s := newStage(t)
			docs := s.declares(t, rule)
			assert.Contains(t, print(t, cli.Table, s.planned(t, docs)), want)
			var steps bytes.Buffer
			out, err := cli.Apply(t.Context(), s.configuring(t, docs, &steps))
			require.NoError(t, err)
			assert.Equal(t, "NothingToDo", out.Result)
			assert.Contains(t, steps.String(), want)
			assert.Equal(t, "0", s.setting(t, "numVFs"))
		})
	}
}

// Two rules for one card are a conflict that changes nothing and names both (R001-9).
func TestTwoDeclarationsAreAConflict(t *testing.T) {
	s := newStage(t)
	docs := s.declares(t, "    settings: {numVFs: 8}\n")
	twin := docs.Configurations[0]
	twin.Name = "twin"
	docs.Configurations = append(docs.Configurations, twin)
	assert.Contains(t, print(t, cli.Table, s.planned(t, docs)), "several rules match, so nothing is changed: twin/cx6, virtual-functions/cx6")
	var steps bytes.Buffer
	out, err := cli.Apply(t.Context(), s.configuring(t, docs, &steps))
	require.NoError(t, err)
	assert.Equal(t, "NothingToDo", out.Result)
	assert.Equal(t, "0", s.setting(t, "numVFs"))
}

// Settings that could not be read are an error of the plan, and nothing is changed.
func TestDeclaredSettingsThatCannotBeRead(t *testing.T) {
	s := newStage(t)
	docs := s.declares(t, "    settings: {numVFs: 8}\n")
	require.NoError(t, s.SetFault(simhost.Fault{Kind: simhost.Fail, Tool: "mstconfig", Device: "nic0", ExitCode: 3, Stderr: "-E- Device is busy"}))
	p := s.planned(t, docs)
	require.ErrorIs(t, p.Unread(), cli.ErrUnreadable)
	assert.Contains(t, print(t, cli.Table, p), "Device is busy")
	var steps bytes.Buffer
	_, err := cli.Apply(t.Context(), s.configuring(t, docs, &steps))
	require.ErrorIs(t, err, cli.ErrUnreadable)
	require.NoError(t, s.ClearFaults())
	assert.Equal(t, "0", s.setting(t, "numVFs"))
}

func TestWrongConfigurationTemplatesAreRefused(t *testing.T) {
	for want, rule := range map[string]string{
		"names no setting and no parameter":  "    policy: Apply\n",
		`"A" is named twice`:                 "    parameters: [{name: A, value: \"1\"}, {name: A, value: \"2\"}]\n",
		"settings.numVFs: must not be":       "    settings: {numVFs: -1}\n",
		`settings.linkType: is "ETH"`:        "    settings: {linkType: ETH}\n",
		`unlisted: is "Drop"`:                "    settings: {numVFs: 1}\n    unlisted: Drop\n",
		`unknown field "spec.rules[0].vfs"`:  "    vfs: 8\n",
		`parameters[0].name: is required`:    "    parameters: [{value: \"1\"}]\n",
		`policy: is "Yes", want one of`:      "    policy: \"Yes\"\n    settings: {numVFs: 1}\n",
		`numVFs`:                             "    settings: {numVFs: many}\n",
		`"cx6" is the name of another rule`:  "    settings: {numVFs: 1}\n  - name: cx6\n    selector: {class: NIC, vendor: any}\n    settings: {numVFs: 1}\n",
		"selector: name a vendor, models, b": "    settings: {numVFs: 1}\n  - name: all\n    selector: {class: NIC}\n    settings: {numVFs: 1}\n",
	} {
		t.Run(want, func(t *testing.T) {
			s := newStage(t)
			_, err := cli.Load([]string{s.write(t, `
apiVersion: nodefirmware.io/v1alpha1
kind: ConfigurationTemplate
metadata: {name: vfs}
spec:
  rules:
  - name: cx6
    selector: {class: NIC, vendor: "15b3", models: [101d]}
`+rule)})
			assert.ErrorContains(t, err, want)
		})
	}
}
