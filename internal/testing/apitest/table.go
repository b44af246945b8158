package apitest

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/printers"
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

// Table is what `kubectl get <kind>` prints, by kubectl's own code and as the server renders it, with every age replaced by <age>.
func (e *Env) Table(t testing.TB, kind schema.GroupVersionKind, columns Columns) string {
	t.Helper()
	table := e.fetchTable(t, kind)
	for i, c := range table.ColumnDefinitions {
		for _, row := range table.Rows {
			if c.Type == "date" && row.Cells[i] != nil && row.Cells[i] != "<unknown>" {
				row.Cells[i] = "<age>"
			}
		}
	}
	var out strings.Builder
	require.NoError(t, printers.NewTablePrinter(printers.PrintOptions{Wide: columns == ColumnsWide}).PrintObj(table, &out))
	return trimLines(out.String())
}

// trimLines takes the blanks off the ends of lines.
func trimLines(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
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
