package kubectl

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/golden"
	"github.com/nodefirmware/node-firmware-operator/internal/version"
)

// reportWorld is two machines: an adapter with known vulnerabilities, a drive that no catalog knows, and one that was never read.
func reportWorld(t *testing.T, change func(o client.Object)) client.Client {
	t.Helper()
	machine := &v1alpha1.Machine{Vendor: "Dell Inc.", Model: "PowerEdge R650"}
	device := func(name, node string, s v1alpha1.NodeDeviceStatus) *v1alpha1.NodeDevice {
		return &v1alpha1.NodeDevice{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.NodeDeviceSpec{NodeName: node}, Status: s}
	}
	nic := device("b-nic", "b", v1alpha1.NodeDeviceStatus{Class: v1alpha1.ClassNIC, Vendor: "Mellanox", Model: "ConnectX-6 Dx", PCIID: "15b3:101d", SerialNumber: "MT1", UniqueID: "b8",
		PCIAddress: "0000:3b:00.0", Firmware: &v1alpha1.ObservedFirmware{Running: "22.39.2048", Stored: "22.41.1000"}, Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Reason: v1alpha1.ReasonPending}}})
	nic.Spec.Firmware = &v1alpha1.DesiredFirmware{Version: "22.41.1000"}
	objects := []client.Object{
		&v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Status: v1alpha1.NodeFirmwareStatus{Machine: machine}},
		nic, device("b-disk", "b", v1alpha1.NodeDeviceStatus{Class: v1alpha1.ClassDisk, Vendor: `Sam"sung`, Model: "MZQL,21", Firmware: &v1alpha1.ObservedFirmware{Running: "GDC5602Q"}}),
		device("z-unread", "a", v1alpha1.NodeDeviceStatus{}),
		&v1alpha1.FirmwareCatalog{ObjectMeta: metav1.ObjectMeta{Name: "dell-inc.poweredge-r650"}, Status: v1alpha1.FirmwareCatalogStatus{Components: []v1alpha1.CatalogComponent{{
			Class: v1alpha1.ClassNIC, Vendor: "Mellanox", Model: "ConnectX-6 Dx", PCIID: "15b3:101d", Versions: []v1alpha1.CatalogVersion{{Version: "22.42.1000"}},
			Running: []v1alpha1.CatalogRunning{{Version: "22.39.2048", Position: v1alpha1.PositionBehind, Issues: []string{"CVE-2026-1", "CVE-2026-2"}, FixedIn: "22.41.1000"}},
		}}}},
	}
	for _, o := range objects {
		if change != nil {
			change(o)
		}
	}
	return world(t, interceptor.Funcs{}, objects...)
}

// TestReport: both forms of one fleet, and what is read of each of them is what was written.
func TestReport(t *testing.T) {
	api := reportWorld(t, nil)
	want, err := reportOf(t.Context(), api)
	require.NoError(t, err)
	dir := t.TempDir()
	for format, file := range map[string]string{"csv": "report.csv", "cyclonedx": "report.cdx.json"} {
		out, said, err := types(t.Context(), api, "report", "-o", format)
		require.NoError(t, err)
		assert.Empty(t, said)
		golden.Equal(t, "testdata/"+file, strings.ReplaceAll(out, version.Current(), "VERSION"))
		path := filepath.Join(dir, file)
		require.NoError(t, os.WriteFile(path, []byte(out), 0o600))
		got, err := readReport(path)
		require.NoError(t, err)
		assert.Equal(t, want, got)
		out, said, err = types(t.Context(), api, "report", "--compare", path)
		require.NoError(t, err)
		assert.Empty(t, out)
		assert.Equal(t, "Nothing differs.\n", said)
	}
	byDefault, _, err := types(t.Context(), api, "report")
	require.NoError(t, err)
	same, err := os.ReadFile(filepath.Join(dir, "report.csv"))
	require.NoError(t, err)
	assert.Equal(t, string(same), byDefault)
}

// TestReportIsCycloneDX: another program reads it, and two documents of one moment have the same components and other serial numbers.
func TestReportIsCycloneDX(t *testing.T) {
	var bom cyclonedx.BOM
	out, _, err := types(t.Context(), reportWorld(t, nil), "report", "-o", "cyclonedx")
	require.NoError(t, err)
	require.NoError(t, cyclonedx.NewBOMDecoder(strings.NewReader(out), cyclonedx.BOMFileFormatJSON).Decode(&bom))
	assert.Equal(t, cyclonedx.SpecVersion1_6, bom.SpecVersion)
	assert.Equal(t, anna.now.Local().UTC().Format("2006-01-02T15:04:05Z07:00"), bom.Metadata.Timestamp)
	assert.Regexp(t, `^urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`, bom.SerialNumber)
	require.Len(t, *bom.Components, 3)
	require.Len(t, *bom.Vulnerabilities, 2)
	assert.Equal(t, []cyclonedx.Affects{{Ref: "b-nic"}}, *(*bom.Vulnerabilities)[0].Affects)
	nobody, _, err := types(t.Context(), world(t, interceptor.Funcs{}), "report", "-o", "cyclonedx")
	require.NoError(t, err)
	bom = cyclonedx.BOM{}
	require.NoError(t, cyclonedx.NewBOMDecoder(strings.NewReader(nobody), cyclonedx.BOMFileFormatJSON).Decode(&bom), "of no device too")
	assert.Empty(t, *bom.Components)
	s := &session{now: anna.now.Local, random: strings.NewReader("")}
	require.ErrorContains(t, s.writeCycloneDX(&bytes.Buffer{}, nil), "draw a serial number")
}

// TestReportsAreCompared: a device came, one is gone, one runs something else, and one is spelled otherwise only.
func TestReportsAreCompared(t *testing.T) {
	dir := t.TempDir()
	for _, format := range []string{"csv", "cyclonedx"} {
		old, now := filepath.Join(dir, "old."+format), filepath.Join(dir, "new."+format)
		out, _, err := types(t.Context(), reportWorld(t, nil), "report", "-o", format)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(old, []byte(out), 0o600))
		api := reportWorld(t, func(o client.Object) {
			switch o := o.(type) {
			case *v1alpha1.NodeDevice:
				switch o.Name {
				case "b-nic":
					o.Status.Firmware.Running = "22.41.1000"
				case "b-disk":
					o.Name = "b-disk-2"
				}
			}
		})
		table, said, err := types(t.Context(), api, "report", "--compare", old)
		require.ErrorIs(t, err, errDiffers)
		assert.Empty(t, said)
		assert.Equal(t, "DEVICE     CHANGE    WAS          IS\nb-disk     Gone      GDC5602Q     -\nb-disk-2   Came      -            GDC5602Q\nb-nic      Changed   22.39.2048   22.41.1000\n", table)
		out, _, err = types(t.Context(), api, "report", "-o", format)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(now, append([]byte("\ufeff"), out...), 0o600))
		two, _, err := types(t.Context(), nil, "report", now, "--compare", old)
		require.ErrorIs(t, err, errDiffers, "no cluster is asked")
		assert.Equal(t, table, two)
		changes, _, err := types(t.Context(), nil, "report", now, "--compare", old, "-o", "jsonpath={.kind}:{.changes[*].change}")
		require.ErrorIs(t, err, errDiffers)
		assert.Equal(t, "ReportDifference:Gone Came Changed", changes)
	}
	spelled := changesOf([]*reported{{device: "a", running: "1.0 "}, {device: "b"}}, []*reported{{device: "a", running: "1.0"}, {device: "b", running: "2"}})
	assert.Equal(t, []ReportChange{{Device: "b", Change: "Changed", Was: unknown, Is: "2"}}, spelled.Changes)
	replaced := changesOf([]*reported{{device: "n1-bios", running: "1", serial: "A"}, {device: "x"}}, []*reported{{device: "n1-bios", running: "1", serial: "B"}, {device: "x", serial: "C"}})
	assert.Equal(t, []ReportChange{{Device: "n1-bios", Change: "Replaced", Was: "1", Is: "1"}}, replaced.Changes, "what was not known before is no change")
}

// A value that a spreadsheet would take for a formula is written as a text, and read as it was.
func TestNoCellIsAFormula(t *testing.T) {
	for _, value := range []string{"=HYPERLINK(1)", "+1", "-1", "@x", "\tx", "plain", "'quoted", ""} {
		assert.NotContains(t, []string{"=", "+", "-", "@", "\t"}, (cell(value) + " ")[:1])
		assert.Equal(t, value, valueOf(cell(value)))
	}
	_, _, err := types(t.Context(), nil, "report", "--compare", "")
	assert.ErrorContains(t, err, "--compare names no file")
}

func TestWhatIsNoReportIsRefused(t *testing.T) {
	dir := t.TempDir()
	for text, want := range map[string]string{
		"":                                    "read the header of CSV",
		"a,b\n":                               `it has no column "node"`,
		"node,device,running\n1,2\n":          "wrong number of fields",
		"node,device,running\n1,2,3\n1,2,4\n": "device 2 is there twice",
		"node,device,running\n1,,3\n":         "a device has no name",
		"{}":                                  "it is JSON, but not CycloneDX",
		`{"bomFormat":"CycloneDX","components":[{"type":"library","name":"x","bom-ref":"x"}]}`: `component "x" has no property nodefirmware.io:node`,
		`{"bomFormat":"CycloneDX","components":{}}`:                                            "its components are no list",
		`{"bomFormat":"CycloneDX","components":[`:                                              "EOF",
		`{"bomFormat":"CycloneDX"}`:                                                            "it lists no components",
		`{"bomFormat":"CycloneDX"`:                                                             "EOF",
	} {
		path := filepath.Join(dir, "r")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, _, err := types(t.Context(), nil, "report", "--compare", path)
		assert.ErrorContains(t, err, want, text)
		assert.ErrorContains(t, err, "is no report of this command", text)
	}
	for line, want := range map[string]string{
		"report x":                   "a report is read to compare it",
		"report -o json":             "-o json: want csv or cyclonedx",
		"report --compare x -o csv":  "-o csv: want wide, json",
		"report x y --compare z":     "name one report",
		"report --compare /no/where": "read report: open /no/where",
	} {
		_, _, err := types(t.Context(), nil, strings.Fields(line)...)
		assert.ErrorContains(t, err, want, line)
	}
}

// fullDisk is where nothing has room.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

func TestAReportThatCannotBeWrittenIsAnError(t *testing.T) {
	s := &session{now: anna.now.Local, random: strings.NewReader(strings.Repeat("7", 16))}
	require.ErrorContains(t, s.writeCycloneDX(fullDisk{}, []*reported{{device: "a"}}), "no space left")
	require.ErrorContains(t, writeCSV(fullDisk{}, []*reported{{device: "a"}}), "no space left")
}
