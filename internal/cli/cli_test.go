package cli_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"aead.dev/minisign"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/cli"
	"github.com/nodefirmware/node-firmware-operator/internal/node/daemon"
	"github.com/nodefirmware/node-firmware-operator/internal/node/reboot"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/child"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/golden"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/simhost"
	"github.com/nodefirmware/node-firmware-operator/pkg/artifact"
	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/fwupd"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/mstflint"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/nvme"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/scsi"
	"github.com/nodefirmware/node-firmware-operator/pkg/host"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/signature/signaturetest"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
)

// simtools is the program that is every vendor tool of a simulated machine. It is small, and a job runs tools often.
var simtools string

func TestMain(m *testing.M) { os.Exit(withTools(m)) }

func withTools(m *testing.M) int {
	dir, err := os.MkdirTemp("", "simtools")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if err := child.Build(dir, "firmware-simtools"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	simtools = filepath.Join(dir, "firmware-simtools")
	return m.Run()
}

// stage is a simulated machine and the hardware view of it.
type stage struct {
	*simhost.Machine
	hardware *daemon.Hardware
	dir      string
}

func newStage(t *testing.T) *stage {
	t.Helper()
	return newStageOf(t, func(*simhost.Spec) {})
}

// newStageOf is a stage whose machine was changed.
func newStageOf(t *testing.T, change func(*simhost.Spec)) *stage {
	t.Helper()
	dir := t.TempDir()
	spec := simhost.DefaultSpec("n1", 1)
	spec.WriteTime, spec.ResetTime = 0, 0
	change(&spec)
	m, err := simhost.Create(filepath.Join(dir, "host"), spec)
	require.NoError(t, err)
	require.NoError(t, m.InstallTools(simtools))
	hardware, err := daemon.NewHardware(sysfs.DirFS(m.Dir()), command.Config{Path: []string{m.ToolPath()}, StateDir: filepath.Join(dir, "state")},
		func(r command.Runner, root fs.FS) driver.Set {
			return driver.Set{mstflint.New(r, root), nvme.New(r), scsi.New(r), fwupd.New(r, root), fwupd.NewATA(r)}
		})
	require.NoError(t, err)
	return &stage{m, hardware, dir}
}

func (s *stage) scan(t *testing.T) host.Inventory {
	t.Helper()
	found, err := s.hardware.Host.Scan(t.Context())
	require.NoError(t, err)
	return found
}

// image puts an image into a file and returns its path and sha256.
func (s *stage) image(t *testing.T, name string, kind simhost.ImageKind, o simhost.ImageOptions) (path, sum string) {
	t.Helper()
	data := simhost.BuildImage(kind, o)
	path = filepath.Join(s.dir, name)
	require.NoError(t, os.WriteFile(path, data, 0o600))
	digest := sha256.Sum256(data)
	return path, hex.EncodeToString(digest[:])
}

// template writes a file that desires newer firmware on both cards.
func (s *stage) template(t *testing.T) string {
	t.Helper()
	cx6, sum6 := s.image(t, "cx6.bin", simhost.NICImage, simhost.ImageOptions{Version: "22.41.1000", PSID: "MT_0000000359"})
	cx7, sum7 := s.image(t, "cx7.bin", simhost.NICImage, simhost.ImageOptions{Version: "28.41.1000", PSID: "MT_0000000834"})
	return s.write(t, fmt.Sprintf(`
apiVersion: nodefirmware.io/v1alpha1
kind: FirmwareTemplate
metadata: {name: cards}
spec:
  nodeSelector: {matchLabels: {pool: gpu}}
  machine: {vendor: lenovo}
  rules:
  - name: cx6
    selector: {class: NIC, vendor: "15b3", models: [101d]}
    version: 22.41.1000
    sourceRef: {name: nics}
  - name: cx7
    selector: {class: NIC, boardIDs: [mt_0000000834]}
    version: 28.41.1000
    sourceRef: {name: nics}
  - name: samsung
    selector: {class: Disk, vendor: "144d"}
    version: NEWER
    sourceRef: {name: nics}
  - name: micron
    selector: {class: Disk, vendor: "1344"}
    version: E2MU200
    sourceRef: {name: absent}
---
apiVersion: nodefirmware.io/v1alpha1
kind: FirmwareSource
metadata: {name: nics}
spec:
  files:
  - url: file://%s
    digest: sha256:%s
    images: [{class: NIC, boardIDs: [MT_0000000359], version: 22.41.1000}]
  - url: file://%s
    digest: sha256:%s
    images: [{class: NIC, boardIDs: [MT_0000000834], version: 28.41.1000}]
`, cx6, sum6, cx7, sum7))
}

func (s *stage) write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(s.dir, "template.yaml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

func print(t *testing.T, format cli.Format, result any) string {
	t.Helper()
	var out bytes.Buffer
	switch r := result.(type) {
	case cli.Hardware:
		require.NoError(t, cli.Print(&out, format, r))
	case cli.Plan:
		require.NoError(t, cli.Print(&out, format, r))
	case cli.Settings:
		require.NoError(t, cli.Print(&out, format, r))
	default:
		require.Fail(t, "nothing is printed of it")
	}
	text := regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`).ReplaceAllStringFunc(out.String(), func(id string) string {
		if strings.HasPrefix(id, "39a1ba52") || strings.HasPrefix(id, "4c4c4544") {
			return id
		}
		return "BOOT-ID"
	})
	return regexp.MustCompile(`file:///\S*/`).ReplaceAllString(text, "file:///DIR/")
}

func TestDiscoverPrintsTheMachine(t *testing.T) {
	s := newStage(t)
	for _, format := range []cli.Format{cli.Table, cli.JSON, cli.YAML} {
		result, err := cli.Discover(s.scan(t))
		require.NoError(t, err)
		golden.Equal(t, "testdata/discover."+string(format), print(t, format, result))
	}
}

func TestDiscoverShowsUnreadable(t *testing.T) {
	s := newStageOf(t, func(s *simhost.Spec) { // no driver knows storage controllers
		s.Controller = &simhost.Controller{PCI: "0000:19:00.0", DeviceID: "00ac", SASAddress: "500605b00dd9c7b0", Serial: "SP81928512"}
	})
	err := s.SetFault(simhost.Fault{Kind: simhost.Fail, Tool: "mstflint", Device: "nic0", ExitCode: 1, Stderr: "-E- Cannot open Device: Permission denied"})
	require.NoError(t, err)
	result, err := cli.Discover(s.scan(t))
	require.NoError(t, err, "a device that cannot be read is a line, not a failure")
	golden.Equal(t, "testdata/discover-unreadable.table", print(t, cli.Table, result))
}

func TestDiscoverFailsOnlyWhenNothingCouldBeListed(t *testing.T) {
	denied := errors.New("permission denied")
	found := host.Inventory{Incomplete: map[inventory.Class]error{inventory.NIC: denied, inventory.Disk: denied}}
	_, err := cli.Discover(found)
	require.NoError(t, err)
	for _, class := range inventory.Classes() {
		found.Incomplete[class] = denied
	}
	_, err = cli.Discover(found)
	require.ErrorIs(t, err, cli.ErrNothingListed)
}

func TestDiscoverWorksOnThisMachine(t *testing.T) {
	hardware, err := daemon.NewHardware(sysfs.DirFS("/"), command.Config{Path: []string{"/usr/bin"}}, func(r command.Runner, root fs.FS) driver.Set {
		return driver.Set{mstflint.New(r, root), nvme.New(r), scsi.New(r), fwupd.New(r, root), fwupd.NewATA(r)}
	})
	require.NoError(t, err)
	found, err := hardware.Host.Scan(t.Context())
	require.NoError(t, err)
	_, err = cli.Discover(found)
	require.NoError(t, err)
}

func TestPlanShowsWhatApplyWouldDo(t *testing.T) {
	s := newStage(t)
	docs, err := cli.Load([]string{s.template(t)})
	require.NoError(t, err)
	p, err := cli.MakePlan(s.scan(t), docs, cli.Describe(docs.Sources), map[string]string{"pool": "gpu"}, nil)
	require.NoError(t, err)
	for _, format := range []cli.Format{cli.Table, cli.JSON} {
		golden.Equal(t, "testdata/plan."+string(format), print(t, format, p))
	}
	_, err = cli.MakePlan(s.scan(t), docs, cli.Describe(docs.Sources), map[string]string{"pool": "storage"}, nil)
	require.ErrorContains(t, err, "--node-labels")
}

func TestPlanNeverChoosesByLuck(t *testing.T) { // R001-9, R000-19
	s := newStage(t)
	docs, err := cli.Load([]string{s.template(t)})
	require.NoError(t, err)
	twin := *docs.Templates[0].DeepCopy()
	twin.Name = "twin"
	docs.Templates = append(docs.Templates, twin)
	p, err := cli.MakePlan(s.scan(t), docs, cli.Describe(docs.Sources), map[string]string{"pool": "gpu"}, nil)
	require.NoError(t, err)
	for _, d := range p.Devices {
		assert.Equal(t, "None", d.Action)
	}
	assert.Contains(t, print(t, cli.Table, p), "several rules match, so nothing is done: cards/cx6, twin/cx6")
}

func TestUnreadableIsNeverDone(t *testing.T) { // R000-12
	s := newStage(t)
	fault := simhost.Fault{Kind: simhost.Fail, Tool: "mstflint", ExitCode: 1, Stderr: "-E- Cannot open Device: Permission denied"}
	for _, card := range []string{"nic0", "nic1"} {
		fault.Device = card
		require.NoError(t, s.SetFault(fault))
	}
	docs, err := cli.Load([]string{s.template(t)})
	require.NoError(t, err)
	p, err := cli.MakePlan(s.scan(t), docs, cli.Describe(docs.Sources), map[string]string{"pool": "gpu"}, nil)
	require.NoError(t, err, "the plan is printed all the same")
	golden.Equal(t, "testdata/plan-unreadable.table", print(t, cli.Table, p))
	err = p.Unread()
	require.ErrorIs(t, err, cli.ErrUnreadable)
	require.ErrorContains(t, err, "0000:3b:00.0")
	require.ErrorContains(t, err, "0000:5e:00.0", "its board, which the rule wants, is not known")
	out, err := cli.Apply(t.Context(), s.applying(t, io.Discard))
	require.ErrorIs(t, err, cli.ErrUnreadable)
	assert.NotEqual(t, "NothingToDo", out.Result)

	require.NoError(t, s.ClearFaults())
	found := s.scan(t)
	found.Incomplete = map[inventory.Class]error{inventory.NIC: errors.New("list NIC devices: EIO"), inventory.BIOS: errors.New("no rule is for one")}
	p, err = cli.MakePlan(found, docs, cli.Describe(docs.Sources), map[string]string{"pool": "gpu"}, nil)
	require.NoError(t, err)
	assert.Equal(t, []string{"list NIC devices: EIO"}, p.Unreadable)
	for i := range found.Devices {
		if found.Devices[i].Class == inventory.BIOS {
			found.Devices[i].Err = errors.New("no rule is for it")
		}
	}
	found.Incomplete = nil
	p, err = cli.MakePlan(found, docs, cli.Describe(docs.Sources), map[string]string{"pool": "gpu"}, nil)
	require.NoError(t, err)
	require.NoError(t, p.Unread())
}

func TestApplyUpdatesWhatItCanReadAndSaysWhatItCannot(t *testing.T) {
	s := newStage(t)
	err := s.SetFault(simhost.Fault{Kind: simhost.Fail, Tool: "mstflint", Device: "nic1", ExitCode: 1, Stderr: "-E- Cannot open Device"})
	require.NoError(t, err)
	out, err := cli.Apply(t.Context(), s.applying(t, io.Discard))
	require.ErrorIs(t, err, cli.ErrUnreadable)
	assert.Equal(t, "Complete", out.Result)
	running, err := s.Running("nic0")
	require.NoError(t, err)
	assert.Equal(t, "22.41.1000", running)
}

// applying is apply on the stage.
func (s *stage) applying(t *testing.T, steps io.Writer) cli.Applying {
	t.Helper()
	docs, err := cli.Load([]string{s.template(t)})
	require.NoError(t, err)
	return cli.Applying{
		Docs: docs, Labels: map[string]string{"pool": "gpu"}, StateDir: filepath.Join(s.dir, "state"), Host: s.hardware,
		Scan: s.hardware.Host.Scan, Drivers: s.hardware.Drivers, Writes: s.hardware.Runner, Steps: steps, Poll: 10 * time.Millisecond,
	}
}

func TestApplyStopsBeforeTheRebootAndGoesOnAfterIt(t *testing.T) {
	s := newStage(t)
	var steps bytes.Buffer
	out, err := cli.Apply(t.Context(), s.applying(t, &steps))
	require.ErrorIs(t, err, cli.ErrRebootPending, "%s", &steps)
	assert.Equal(t, "RebootRequired", out.Result)
	asked, err := s.RebootRequested()
	require.NoError(t, err)
	assert.False(t, asked, "nobody allowed a reboot")
	card, err := s.Device("nic1")
	require.NoError(t, err)
	assert.Equal(t, "28.41.1000", card.Stored)
	assert.Equal(t, simhost.DefaultCX7Version, card.Running)

	for range 3 { // as often as one likes: nothing is written twice
		_, err = cli.Apply(t.Context(), s.applying(t, &steps))
		require.ErrorIs(t, err, cli.ErrRebootPending)
	}
	require.NoError(t, s.Boot())
	out, err = cli.Apply(t.Context(), s.applying(t, &steps))
	require.NoError(t, err, "%s", &steps)
	assert.Equal(t, "Complete", out.Result)
	assert.Len(t, out.Devices, 2)
	for key, want := range map[string]string{"nic0": "22.41.1000", "nic1": "28.41.1000"} {
		running, err := s.Running(key)
		require.NoError(t, err)
		assert.Equal(t, want, running)
	}
	assert.Equal(t, 2, s.count(t, "Write"))
	assert.Contains(t, steps.String(), "flash local-nic-b83fd2000010  Succeeded")
	assert.Contains(t, steps.String(), "cards/samsung): nothing to do")
	assert.Equal(t, 1, strings.Count(steps.String(), "preflight  Succeeded"), "what an earlier apply did is not told again")

	out, err = cli.Apply(t.Context(), s.applying(t, io.Discard))
	require.NoError(t, err)
	assert.Equal(t, "NothingToDo", out.Result)
}

func (s *stage) count(t *testing.T, action string) int {
	t.Helper()
	operations, err := s.Operations()
	require.NoError(t, err)
	n := 0
	for _, o := range operations {
		if o.Action == action {
			n++
		}
	}
	return n
}

func TestApplyRebootsWhenAllowed(t *testing.T) {
	s := newStage(t)
	a := s.applying(t, io.Discard)
	a.Rebooter = reboot.Host{Runner: s.hardware.Runner, Systemctl: reboot.Direct()}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { // the reboot ends this program
		_, _ = s.WaitPowerEvent(ctx)
		cancel()
	}()
	out, err := cli.Apply(ctx, a)
	require.ErrorIs(t, err, cli.ErrInterrupted)
	assert.Equal(t, "Interrupted", out.Result)
	require.NoError(t, s.Boot())
	out, err = cli.Apply(t.Context(), a)
	require.NoError(t, err)
	assert.Equal(t, "Complete", out.Result)
}

func TestApplyWritesNothingFromAFileThatIsNotTheImage(t *testing.T) {
	s := newStage(t)
	a := s.applying(t, io.Discard)
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, "cx7.bin"), []byte("<html>404</html>"), 0o600))
	_, err := cli.Apply(t.Context(), a)
	require.ErrorContains(t, err, "FirmwareSource nics")
	assert.Zero(t, s.count(t, "Write"))
}

// Without a cluster nobody else asks who signed a file.
func TestApplyTakesSignedFilesOnlyWhereTheSourceSaysSo(t *testing.T) {
	s := newStage(t)
	a := s.applying(t, io.Discard)
	public, private, err := minisign.GenerateKey(rand.Reader)
	require.NoError(t, err)
	for i := range a.Docs.Sources {
		spec := &a.Docs.Sources[i].Spec
		spec.Verification = &v1alpha1.SourceVerification{Keys: []string{public.String()}}
		for j := range spec.Files {
			f := &spec.Files[j]
			f.SignatureURL = f.URL + ".minisig"
			require.NoError(t, os.WriteFile(strings.TrimPrefix(f.SignatureURL, "file://"), minisign.Sign(private, []byte("another file")), 0o600))
		}
	}
	_, err = cli.Apply(t.Context(), a)
	require.ErrorContains(t, err, "FirmwareSource nics")
	reason, _ := artifact.ReasonOf(err)
	assert.Equal(t, artifact.SignatureInvalid, reason, "%v", err)
	assert.Zero(t, s.count(t, "Write"))

	v := a.Docs.Sources[0].Spec.Verification
	v.Keys = nil
	_, err = cli.Apply(t.Context(), a)
	require.ErrorContains(t, err, "either keys, or trustedRoot")
	v.Keys = []string{public.String()}

	for _, f := range a.Docs.Sources[0].Spec.Files {
		content, err := os.ReadFile(strings.TrimPrefix(f.URL, "file://"))
		require.NoError(t, err)
		r := minisign.NewReader(bytes.NewReader(content))
		_, err = io.Copy(io.Discard, r)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(strings.TrimPrefix(f.SignatureURL, "file://"), r.Sign(private), 0o600))
	}
	_, err = cli.Apply(t.Context(), a)
	require.ErrorIs(t, err, cli.ErrRebootPending)
}

func TestApplyTrustsSigningIdentity(t *testing.T) {
	s := newStage(t)
	a := s.applying(t, io.Discard)
	vendor := signaturetest.New(t)
	const issuer, release = "https://accounts.example.com", "release@example.com"
	for i := range a.Docs.Sources {
		spec := &a.Docs.Sources[i].Spec
		spec.Verification = &v1alpha1.SourceVerification{
			TrustedRoot: string(vendor.Root(t)), Identities: []v1alpha1.SignerIdentity{{Issuer: issuer, Subject: release}},
		}
	}
	signedBy := func(subject string) {
		for _, source := range a.Docs.Sources {
			for j := range source.Spec.Files {
				f := &source.Spec.Files[j]
				content, err := os.ReadFile(strings.TrimPrefix(f.URL, "file://"))
				require.NoError(t, err)
				f.SignatureURL = f.URL + ".sigstore.json"
				require.NoError(t, os.WriteFile(strings.TrimPrefix(f.SignatureURL, "file://"), vendor.Sign(t, subject, issuer, content), 0o600))
			}
		}
	}
	signedBy("intern@example.com")
	_, err := cli.Apply(t.Context(), a)
	reason, _ := artifact.ReasonOf(err)
	assert.Equal(t, artifact.SignatureUntrusted, reason, "%v", err)
	assert.Zero(t, s.count(t, "Write"))

	signedBy(release)
	_, err = cli.Apply(t.Context(), a)
	require.ErrorIs(t, err, cli.ErrRebootPending)
}

func TestApplySaysWhyItFailed(t *testing.T) {
	s := newStage(t)
	err := s.SetFault(simhost.Fault{Kind: simhost.Fail, Tool: "mstflint", Device: "nic0", Operation: "write", ExitCode: 1, Stderr: "-E- Burning failed"})
	require.NoError(t, err)
	out, err := cli.Apply(t.Context(), s.applying(t, io.Discard))
	require.ErrorContains(t, err, "WriteFailed")
	assert.Equal(t, "Failed", out.Result)
	require.NoError(t, s.ClearFaults())
	out, err = cli.Apply(t.Context(), s.applying(t, io.Discard))
	require.ErrorIs(t, err, cli.ErrRebootPending, "a new apply takes the failed one over: %v", out)
}

func TestDocumentsAreReadStrictly(t *testing.T) { // R000-7
	const head = "apiVersion: nodefirmware.io/v1alpha1\nkind: FirmwareTemplate\nmetadata: {name: t}\nspec:\n  rules:\n"
	for name, tc := range map[string]struct{ text, want string }{
		"unknown field":    {head + "  - name: a\n    selektor: {class: NIC}\n    version: \"1\"\n", `template.yaml:7: unknown field "spec.rules[0].selektor"`},
		"wrong type":       {head + "  - name: a\n    version: [1]\n", "template.yaml:"},
		"unknown class":    {head + "  - name: a\n    version: \"1\"\n    sourceRef: {name: s}\n    selector:\n      class: GPU\n", `template.yaml:10: spec.rules[0].selector.class: is "GPU"`},
		"missing version":  {head + "  - name: a\n    sourceRef: {name: s}\n    selector: {class: NIC, vendor: any}\n", "template.yaml:6: spec.rules[0].version: is required"},
		"class alone":      {head + "  - name: a\n    version: \"1\"\n    sourceRef: {name: s}\n    selector: {class: NIC}\n", "template.yaml:9: spec.rules[0].selector: name a vendor, models"},
		"two of a name":    {head + "  - &r {name: a, version: \"1\", sourceRef: {name: s}, selector: {class: NIC, vendor: any}}\n  - *r\n", "name of another rule too"},
		"second document":  {head + "  - {name: a, version: \"1\", sourceRef: {name: s}, selector: {class: NIC, vendor: any}}\n---\napiVersion: v1\nkind: Pod\n", `template.yaml:8: apiVersion is "v1"`},
		"other kind":       {"apiVersion: nodefirmware.io/v1alpha1\nkind: RolloutPolicy\n", `template.yaml:2: kind is "RolloutPolicy"`},
		"no template":      {"apiVersion: nodefirmware.io/v1alpha1\nkind: FirmwareSource\nmetadata: {name: s}\nspec: {files: [{url: \"https://x/y\", digest: \"sha256:" + strings.Repeat("0", 64) + "\", images: [{class: NIC, version: \"1\"}]}]}\n", "no FirmwareTemplate or ConfigurationTemplate in"},
		"bad source":       {"apiVersion: nodefirmware.io/v1alpha1\nkind: FirmwareSource\nmetadata: {name: s}\nspec:\n  files:\n  - url: ftp://x\n    digest: abc\n", "template.yaml:7: spec.files[0].digest: must be sha256: and 64 hexadecimal digits"},
		"not YAML":         {"a: [", "template.yaml: yaml:"},
		"nothing":          {"", "no FirmwareTemplate or ConfigurationTemplate in"},
		"selector invalid": {"apiVersion: nodefirmware.io/v1alpha1\nkind: FirmwareTemplate\nmetadata: {name: t}\nspec:\n  nodeSelector: {matchExpressions: [{key: a, operator: Like}]}\n", "template.yaml:5: spec.nodeSelector"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &stage{dir: t.TempDir()}
			_, err := cli.Load([]string{s.write(t, tc.text)})
			require.ErrorContains(t, err, tc.want)
		})
	}
	_, err := cli.Load([]string{"/does/not/exist"})
	require.ErrorContains(t, err, "no such file")
}

func TestTheExamplesCanBeRead(t *testing.T) {
	_, err := cli.Load([]string{"../../docs/examples/firmwaretemplate.yaml", "../../docs/examples/firmwaresource.yaml"})
	require.NoError(t, err)
}
