package apitest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// Columns says which columns a table has.
type Columns int

const (
	// ColumnsDefault are those of `kubectl get`.
	ColumnsDefault Columns = iota
	// ColumnsWide are those of `kubectl get -o wide`.
	ColumnsWide
)

// Table is what `kubectl get <kind>` prints, as the server renders it, with every age replaced by <age>.
func (e *Env) Table(t testing.TB, kind schema.GroupVersionKind, columns Columns) string {
	t.Helper()
	table := e.fetchTable(t, kind)
	var shown []int
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 8, 3, ' ', 0)
	var header []string
	for i, c := range table.ColumnDefinitions {
		if c.Priority == 0 || columns == ColumnsWide {
			shown = append(shown, i)
			header = append(header, strings.ToUpper(c.Name))
		}
	}
	fmt.Fprintln(w, strings.Join(header, "\t"))
	for _, row := range table.Rows {
		var cells []string
		for _, i := range shown {
			cells = append(cells, cell(row.Cells[i], table.ColumnDefinitions[i]))
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	require.NoError(t, w.Flush())
	lines := strings.Split(out.String(), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

func cell(value any, column metav1.TableColumnDefinition) string {
	switch {
	case value == nil:
		return ""
	case column.Type == "date" && value != "<unknown>":
		return "<age>"
	}
	return fmt.Sprint(value)
}

func (e *Env) fetchTable(t testing.TB, kind schema.GroupVersionKind) *metav1.Table {
	t.Helper()
	mapping, err := e.Client.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	require.NoError(t, err)
	config := rest.CopyConfig(e.Config)
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	api, err := rest.UnversionedRESTClientFor(config)
	require.NoError(t, err)
	prefix := "/apis/" + kind.Group
	if kind.Group == "" {
		prefix = "/api"
	}
	body, err := api.Get().AbsPath(prefix, kind.Version, mapping.Resource.Resource).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(t.Context())
	require.NoError(t, err)
	table := &metav1.Table{}
	require.NoError(t, json.Unmarshal(body, table))
	return table
}
