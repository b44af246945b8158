package kubectl

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/nodefirmware/node-firmware-operator/internal/table"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

// resultVersion is the apiVersion of results that are no objects of the cluster. It promises as little as that of the kinds.
const resultVersion = "kubectl.nodefirmware.io/v1alpha1"

// result is what a verb found: an object for programs, that prints itself for people.
type result interface {
	runtime.Object
	text(p page) error
}

// page is where a result is printed for people.
type page struct {
	io.Writer
	// width in characters; 0 for any. Wide asks for all there is.
	width int
	wide  bool
}

// printable keeps from a terminal what it would act on: messages have what devices and tools say of themselves.
type printable struct{ io.Writer }

func (p printable) Write(b []byte) (int, error) {
	if _, err := io.WriteString(p.Writer, text.Printable(string(b))); err != nil {
		return 0, err
	}
	return len(b), nil
}

func (p page) table(header []string, rows [][]string, givesWay ...int) error {
	return table.Write(p, p.width, header, rows, givesWay...)
}

func (p page) line(format string, args ...any) error {
	_, err := fmt.Fprintf(p, format+"\n", args...)
	return err
}

// output is the flag -o of a verb.
type output struct {
	flags *genericclioptions.PrintFlags
	// names says that the verb lists objects, so that -o name means something.
	names bool
}

// outputOf adds -o to a verb.
func outputOf(c *cobra.Command, names bool) *output {
	o := &output{flags: genericclioptions.NewPrintFlags(""), names: names}
	if !names {
		o.flags.NamePrintFlags = nil
	}
	known := o.known()
	o.flags.JSONYamlPrintFlags.AddFlags(c)
	o.flags.TemplatePrinterFlags.AddFlags(c)
	c.Flags().StringVarP(o.flags.OutputFormat, "output", "o", "", "how to print it: "+strings.Join(known, ", ")+" (default: a table)")
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(known, cobra.ShellCompDirectiveNoFileComp))
	return o
}

// known are the formats that people use. Those of kubectl's templates are accepted too.
func (o *output) known() []string {
	out := []string{"wide", "json", "yaml", "jsonpath=…", "go-template=…"}
	if o.names {
		out = append(out, "name")
	}
	return out
}

// printer is for programs; nil where people read.
func (o *output) printer() (printers.ResourcePrinter, error) {
	if o.isText() {
		return nil, nil //nolint:nilnil // people read
	}
	p, err := o.toPrinter()
	if err != nil && genericclioptions.IsNoCompatiblePrinterError(err) {
		return nil, fmt.Errorf("-o %s: want %s", *o.flags.OutputFormat, strings.Join(o.known(), ", "))
	}
	return p, err
}

func (o *output) toPrinter() (printers.ResourcePrinter, error) {
	for _, f := range []interface {
		ToPrinter(string) (printers.ResourcePrinter, error)
	}{o.flags.JSONYamlPrintFlags, o.flags.TemplatePrinterFlags} {
		if p, err := f.ToPrinter(*o.flags.OutputFormat); !genericclioptions.IsNoCompatiblePrinterError(err) {
			return p, err
		}
	}
	if !o.names {
		return nil, genericclioptions.NoCompatiblePrinterError{OutputFormat: o.flags.OutputFormat}
	}
	return o.flags.NamePrintFlags.ToPrinter(*o.flags.OutputFormat)
}

func (o *output) isText() bool { return slices.Contains([]string{"", "wide"}, *o.flags.OutputFormat) }

func (o *output) page(w io.Writer) page {
	p := page{Writer: printable{w}, width: width(w), wide: *o.flags.OutputFormat == "wide"}
	if p.wide {
		p.width = 0
	}
	return p
}

// printObjects prints a list of objects of the cluster: as one, but for -o name, which prints each.
func printObjects(p printers.ResourcePrinter, format string, list runtime.Object, w io.Writer) error {
	if format != "name" {
		return p.PrintObj(list, w)
	}
	out := bufio.NewWriterSize(w, 32<<10)
	return cmp.Or(meta.EachListItem(list, func(o runtime.Object) error { return p.PrintObj(o, out) }), out.Flush())
}

// print prints a result in the format that was asked for.
func (o *output) print(w io.Writer, r result) error {
	p, err := o.printer()
	if err != nil {
		return err
	}
	if p == nil {
		return r.text(o.page(w))
	}
	return p.PrintObj(r, w)
}
