package kubectl

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/google/uuid"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/explain"
	"github.com/nodefirmware/node-firmware-operator/internal/version"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// reported is one device of a report.
type reported struct {
	node, device, class, vendor, model, pciID, subsystemID, boardID, serial, uniqueID, pciAddress string
	running, stored, desired, state, position, newest, fixedIn                                    string
	// issues are separated by semicolons; known is yes where a catalog knows them, and no elsewhere.
	issues, known string
}

func (r *reported) vulnerabilities() []string {
	return strings.FieldsFunc(r.issues, func(c rune) bool { return c == ';' })
}

// reportColumns are those of a report as CSV, and the properties of a component of CycloneDX, which says some of them in fields of its own.
var reportColumns = []struct {
	name string
	of   func(*reported) *string
	// own says that CycloneDX has a field for it.
	own bool
}{
	{"node", func(r *reported) *string { return &r.node }, false},
	{"device", func(r *reported) *string { return &r.device }, true},
	{"class", func(r *reported) *string { return &r.class }, false},
	{"vendor", func(r *reported) *string { return &r.vendor }, true},
	{"model", func(r *reported) *string { return &r.model }, false},
	{"pciID", func(r *reported) *string { return &r.pciID }, false},
	{"subsystemID", func(r *reported) *string { return &r.subsystemID }, false},
	{"boardID", func(r *reported) *string { return &r.boardID }, false},
	{"serialNumber", func(r *reported) *string { return &r.serial }, false},
	{"uniqueID", func(r *reported) *string { return &r.uniqueID }, false},
	{"pciAddress", func(r *reported) *string { return &r.pciAddress }, false},
	{"running", func(r *reported) *string { return &r.running }, true},
	{"stored", func(r *reported) *string { return &r.stored }, false},
	{"desired", func(r *reported) *string { return &r.desired }, false},
	{"state", func(r *reported) *string { return &r.state }, false},
	{"position", func(r *reported) *string { return &r.position }, false},
	{"newest", func(r *reported) *string { return &r.newest }, false},
	{"vulnerabilitiesKnown", func(r *reported) *string { return &r.known }, false},
	{"vulnerabilities", func(r *reported) *string { return &r.issues }, false},
	{"fixedIn", func(r *reported) *string { return &r.fixedIn }, false},
}

// propertyOf begins the names of the properties of a component.
const propertyOf = "nodefirmware.io:"

// propertyNames are those of the columns, in their order.
var propertyNames = func() (out []string) {
	for _, column := range reportColumns {
		out = append(out, propertyOf+column.name)
	}
	return out
}()

func (s *session) reportCommand() *cobra.Command {
	old := ""
	c := &cobra.Command{
		Use:   "report [REPORT]",
		Short: "Write the inventory of the fleet's firmware as CSV or CycloneDX, or compare two of them",
		Long: "Write the inventory of the fleet's firmware: every device with what it runs, how that stands and its known vulnerabilities, by node and name. With --compare, say " +
			"instead which devices came, went or changed their version since an earlier report, up to now or to another report. The exit code is 0 where nothing differs, and 2 " +
			"where something does.",
		Example: "  kubectl firmware report > fleet.csv\n" +
			"  kubectl firmware report -o cyclonedx > fleet.cdx.json\n" +
			"  kubectl firmware report --compare fleet.csv",
	}
	c.Flags().StringVar(&old, "compare", "", "an earlier report, as CSV or CycloneDX, to compare with")
	out := outputOf(c, false)
	c.Flags().Lookup("output").Usage = "csv (default) or cyclonedx; with --compare " + strings.Join(out.known(), ", ") + " (default: a table)"
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"csv", "cyclonedx"}, cobra.ShellCompDirectiveNoFileComp))
	c.RunE = func(c *cobra.Command, args []string) error {
		format := *out.flags.OutputFormat
		switch {
		case old == "" && c.Flags().Changed("compare"):
			return errors.New("--compare names no file, so that nothing was compared: name an earlier report")
		case old == "" && len(args) > 0:
			return errors.New("a report is read to compare it; to write one, name none, and to compare: kubectl firmware report --compare OLD.csv [NEW.csv]")
		case len(args) > 1:
			return errors.New("name one report to compare with the earlier one, or none for what runs now")
		case old == "" && !slices.Contains([]string{"", "csv", "cyclonedx"}, format):
			return fmt.Errorf("-o %s: want csv or cyclonedx; for a table or the objects: kubectl firmware get -o %[1]s", format)
		case old != "":
			if _, err := out.printer(); err != nil {
				return err
			}
			return s.compareReports(c.Context(), out, old, args)
		}
		devices, err := s.report(c.Context())
		if err != nil {
			return err
		}
		w := bufio.NewWriterSize(s.Out, 64<<10)
		if format == "cyclonedx" {
			err = s.writeCycloneDX(w, devices)
		} else {
			err = writeCSV(w, devices)
		}
		return cmp.Or(err, w.Flush())
	}
	return c
}

// report reads what every device runs, in order of node and name.
func (s *session) report(ctx context.Context) ([]*reported, error) {
	api, err := s.connect()
	if err != nil {
		return nil, err
	}
	return reportOf(ctx, api)
}

func reportOf(ctx context.Context, api client.Reader) ([]*reported, error) {
	stands, err := explain.ReadStandings(ctx, api)
	if err != nil {
		return nil, err
	}
	var out []*reported
	err = eachBrief(ctx, api, nil, func(d *v1alpha1.NodeDevice) error {
		r := rowOf(d)
		if c, run := stands.Of(d); run != nil {
			r.position, r.newest, r.fixedIn, r.issues = string(run.Position), explain.Newest(c), run.FixedIn, strings.Join(run.Issues, ";")
			switch {
			case stands.TellsAll(d, run):
				r.known = "yes"
			case run.Issues != nil:
				r.known = "partly"
			}
		}
		out = append(out, r)
		return nil
	})
	slices.SortFunc(out, func(a, b *reported) int { return cmp.Or(cmp.Compare(a.node, b.node), cmp.Compare(a.device, b.device)) })
	return out, err
}

// rowOf is what a report says of a device without the catalogs.
func rowOf(d *v1alpha1.NodeDevice) *reported {
	f, s := foundOf(d, "", false), &d.Status
	r := &reported{
		node: f.node, device: f.name, class: f.class, vendor: s.Vendor, model: f.model, pciID: f.pciID, subsystemID: s.SubsystemID, boardID: s.BoardID,
		serial: s.SerialNumber, uniqueID: s.UniqueID, pciAddress: s.PCIAddress, running: f.running, desired: f.desired, state: f.state, known: "no",
	}
	if s.Firmware != nil {
		r.stored = s.Firmware.Stored
	}
	return r
}

// formula is how spreadsheets know one. What devices say of themselves must not become one there.
const formula = "=+-@\t\r"

// cell writes a value so that no spreadsheet takes it for a formula, and valueOf reads it.
func cell(value string) string {
	if value != "" && strings.ContainsAny(value[:1], formula) {
		return "'" + value
	}
	return value
}

func valueOf(cell string) string {
	if len(cell) > 1 && cell[0] == '\'' && strings.ContainsAny(cell[1:2], formula) {
		return cell[1:]
	}
	return cell
}

func writeCSV(w io.Writer, devices []*reported) error {
	out := csv.NewWriter(w)
	row := make([]string, len(reportColumns))
	for i, column := range reportColumns {
		row[i] = column.name
	}
	if err := out.Write(row); err != nil {
		return err
	}
	for _, r := range devices {
		for j, column := range reportColumns {
			row[j] = cell(*column.of(r))
		}
		if err := out.Write(row); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// writeCycloneDX writes a component after the other: a fleet in one document would have to be in memory twice.
func (s *session) writeCycloneDX(w io.Writer, devices []*reported) error {
	id, err := uuid.NewRandomFromReader(s.random)
	if err != nil {
		return fmt.Errorf("draw a serial number: %w", err)
	}
	head, err := json.Marshal(&cyclonedx.BOM{
		JSONSchema: "http://cyclonedx.org/schema/bom-1.6.schema.json", BOMFormat: cyclonedx.BOMFormat, SpecVersion: cyclonedx.SpecVersion1_6, SerialNumber: id.URN(), Version: 1,
		Metadata: &cyclonedx.Metadata{
			Timestamp:  s.now().UTC().Format(time.RFC3339),
			Lifecycles: &[]cyclonedx.Lifecycle{{Phase: cyclonedx.LifecyclePhaseOperations}},
			Tools:      &cyclonedx.ToolsChoice{Components: &[]cyclonedx.Component{{Type: cyclonedx.ComponentTypeApplication, Name: writer, Version: version.Current()}}},
		},
	})
	if err != nil {
		return err
	}
	affected := map[string][]cyclonedx.Affects{}
	out := &listWriter{w: w}
	out.write(append(bytes.TrimSuffix(head, []byte("}")), ",\n\"components\":["...))
	for _, r := range devices {
		out.item(componentOf(r))
		for _, id := range r.vulnerabilities() {
			affected[id] = append(affected[id], cyclonedx.Affects{Ref: r.device})
		}
	}
	out.next("],\n\"vulnerabilities\":[")
	for _, id := range slices.Sorted(maps.Keys(affected)) {
		out.item(&cyclonedx.Vulnerability{ID: id, Affects: new(affected[id])})
	}
	out.next("]}\n")
	return out.err
}

// listWriter writes lists of JSON, until something goes wrong.
type listWriter struct {
	w     io.Writer
	items int
	err   error
}

func (l *listWriter) write(text []byte) {
	if l.err == nil {
		_, l.err = l.w.Write(text)
	}
}

func (l *listWriter) next(text string) {
	l.write([]byte("\n" + text))
	l.items = 0
}

func (l *listWriter) item(o any) {
	text, err := json.Marshal(o)
	if l.err = cmp.Or(l.err, err); l.items > 0 {
		l.write([]byte(","))
	}
	l.write([]byte("\n"))
	l.write(text)
	l.items++
}

// componentOf is the firmware of a device. Its version is what runs, absent where that could not be read.
func componentOf(r *reported) *cyclonedx.Component {
	c := &cyclonedx.Component{BOMRef: r.device, Type: cyclonedx.ComponentTypeFirmware, Name: cmp.Or(r.model, r.pciID, r.class, r.device), Version: r.running}
	if r.vendor != "" {
		c.Supplier = &cyclonedx.OrganizationalEntity{Name: r.vendor}
	}
	properties := make([]cyclonedx.Property, 0, len(reportColumns))
	for i, column := range reportColumns {
		if value := *column.of(r); !column.own && value != "" {
			properties = append(properties, cyclonedx.Property{Name: propertyNames[i], Value: value})
		}
	}
	c.Properties = &properties
	return c
}

// readReport reads a report in either form.
func readReport(path string) ([]*reported, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read report: %w", err)
	}
	defer f.Close()
	in := bufio.NewReader(f)
	var devices []*reported
	if mark, _ := in.Peek(3); string(mark) == "\ufeff" { // as spreadsheets write
		_, _ = in.Discard(len(mark))
	}
	if first, _ := in.Peek(1); string(first) == "{" {
		devices, err = readCycloneDX(in)
	} else {
		devices, err = readCSV(in)
	}
	seen := map[string]bool{}
	for _, r := range devices {
		switch {
		case err != nil:
		case r.device == "":
			err = errors.New("a device has no name")
		case seen[r.device]:
			err = fmt.Errorf("device %s is there twice", r.device)
		}
		seen[r.device] = true
	}
	if err != nil {
		return nil, fmt.Errorf("%s is no report of this command: %w. To write one: kubectl firmware report > fleet.csv", path, err)
	}
	return devices, nil
}

func readCSV(in io.Reader) (out []*reported, err error) {
	rows := csv.NewReader(in)
	rows.ReuseRecord = true
	header, err := rows.Read()
	if err != nil {
		return nil, fmt.Errorf("read the header of CSV: %w", err)
	}
	columns := make([]func(*reported) *string, len(header))
	for i, name := range header {
		for _, column := range reportColumns {
			if column.name == name {
				columns[i] = column.of
			}
		}
	}
	for _, needed := range []string{"node", "device", "running"} {
		if !slices.Contains(header, needed) {
			return nil, fmt.Errorf("it has no column %q", needed)
		}
	}
	for {
		row, err := rows.Read()
		switch {
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return nil, err
		}
		r := &reported{}
		for i, value := range row {
			if columns[i] != nil {
				*columns[i](r) = strings.Clone(valueOf(value))
			}
		}
		out = append(out, r)
	}
}

// readCycloneDX reads the components of a document, one after the other.
func readCycloneDX(r io.Reader) (out []*reported, err error) {
	in := json.NewDecoder(r)
	if _, err := in.Token(); err != nil {
		return nil, err
	}
	format, listed := "", false
	for in.More() {
		key, err := in.Token()
		if err != nil {
			return nil, err
		}
		switch key {
		case "bomFormat":
			err = in.Decode(&format)
		case "components":
			listed = true
			out, err = components(in)
		default:
			err = in.Decode(new(json.RawMessage))
		}
		if err != nil {
			return nil, err
		}
	}
	if _, err := in.Token(); err != nil {
		return nil, err
	}
	if format != cyclonedx.BOMFormat {
		return nil, errors.New("it is JSON, but not CycloneDX")
	}
	if !listed {
		return nil, errors.New("it lists no components")
	}
	return out, nil
}

func components(in *json.Decoder) (out []*reported, err error) {
	if start, err := in.Token(); err != nil || start != json.Delim('[') {
		return nil, cmp.Or(err, errors.New("its components are no list"))
	}
	for in.More() {
		var c cyclonedx.Component
		if err := in.Decode(&c); err != nil {
			return nil, err
		}
		r := &reported{device: c.BOMRef, running: c.Version}
		if c.Supplier != nil {
			r.vendor = c.Supplier.Name
		}
		if c.Properties != nil {
			for _, p := range *c.Properties {
				for _, column := range reportColumns {
					if !column.own && p.Name == propertyOf+column.name {
						*column.of(r) = p.Value
					}
				}
			}
		}
		if r.node == "" {
			return nil, fmt.Errorf("component %q has no property %snode", c.Name, propertyOf)
		}
		out = append(out, r)
	}
	_, err = in.Token()
	return out, err
}

// ReportDifference is what differs between two reports.
type ReportDifference struct {
	metav1.TypeMeta `json:",inline"`
	Changes         []ReportChange `json:"changes"`
}

// ReportChange is what became of one device.
type ReportChange struct {
	Device string `json:"device"`
	Node   string `json:"node"`
	Class  string `json:"class,omitempty"`
	Model  string `json:"model,omitempty"`
	// Change is Came, Gone, Replaced by other hardware, or Changed, to another version.
	Change string `json:"change"`
	// Was and Is are the versions that it ran; empty where it was not there, and unknown where it could not be read.
	Was string `json:"was,omitempty"`
	Is  string `json:"is,omitempty"`
}

// DeepCopyObject makes a result printable; nothing changes it.
func (d *ReportDifference) DeepCopyObject() runtime.Object { out := *d; return &out }

func (d *ReportDifference) text(p page) error {
	if len(d.Changes) == 0 {
		return nil
	}
	header := []string{"DEVICE", "CHANGE", "WAS", "IS"}
	if p.wide {
		header = append(header, "NODE", "CLASS", "MODEL")
	}
	var rows [][]string
	for _, c := range d.Changes {
		row := []string{c.Device, c.Change, c.Was, c.Is}
		if p.wide {
			row = append(row, c.Node, c.Class, c.Model)
		}
		rows = append(rows, row)
	}
	return p.table(header, rows, 0, 2, 3)
}

// compareReports prints what differs between an earlier report and another one, or what runs now where none is named.
func (s *session) compareReports(ctx context.Context, out *output, old string, newer []string) error {
	before, err := readReport(old)
	if err != nil {
		return err
	}
	var after []*reported
	if len(newer) > 0 {
		after, err = readReport(newer[0])
	} else {
		after, err = s.report(ctx)
	}
	if err != nil {
		return err
	}
	d := changesOf(before, after)
	if err := out.print(s.Out, d); err != nil {
		return err
	}
	if len(d.Changes) == 0 {
		s.say("Nothing differs.")
		return nil
	}
	return errDiffers
}

// isOther reports whether both are known and differ.
func isOther(a, b string) bool { return a != "" && b != "" && a != b }

// changesOf compares two reports by the names of the devices, and versions as the operator does. A device of another serial number or unique id
// under the same name is another one: the BIOS of a node has one name in every mainboard.
func changesOf(before, after []*reported) *ReportDifference {
	out := &ReportDifference{TypeMeta: metav1.TypeMeta{APIVersion: resultVersion, Kind: "ReportDifference"}, Changes: []ReportChange{}}
	was := map[string]*reported{}
	for _, r := range before {
		was[r.device] = r
	}
	change := func(r *reported, what, from, to string) {
		out.Changes = append(out.Changes, ReportChange{Device: r.device, Node: r.node, Class: r.class, Model: r.model, Change: what, Was: from, Is: to})
	}
	for _, r := range after {
		old := was[r.device]
		delete(was, r.device)
		switch {
		case old == nil:
			change(r, "Came", "", cmp.Or(r.running, unknown))
		case isOther(old.uniqueID, r.uniqueID) || isOther(old.serial, r.serial):
			change(r, "Replaced", cmp.Or(old.running, unknown), cmp.Or(r.running, unknown))
		case inventory.NormalizeVersion(old.running) != inventory.NormalizeVersion(r.running):
			change(r, "Changed", cmp.Or(old.running, unknown), cmp.Or(r.running, unknown))
		}
	}
	for _, r := range was {
		change(r, "Gone", cmp.Or(r.running, unknown), "")
	}
	slices.SortFunc(out.Changes, func(a, b ReportChange) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Device, b.Device))
	})
	return out
}
