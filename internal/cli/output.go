package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"sigs.k8s.io/yaml"

	"github.com/nodefirmware/node-firmware-operator/internal/table"
)

// Format is how a result is printed.
type Format string

// The formats.
const (
	Table Format = "table"
	JSON  Format = "json"
	YAML  Format = "yaml"
	// Wide is a table with more columns, for the commands that have them.
	Wide Format = "wide"
)

// ParseFormat parses the value of -o of a command that knows more formats, or none.
func ParseFormat(s string, more ...Format) (Format, error) {
	f := Format(s)
	if !slices.Contains(append(more, Table, JSON, YAML), f) {
		known := "table, "
		for _, m := range more {
			known += string(m) + ", "
		}
		return "", fmt.Errorf("-o %q: want %sjson or yaml", s, known)
	}
	return f, nil
}

// tabler prints itself for people.
type tabler interface {
	table(w io.Writer) error
}

// Print prints a result in the format.
func Print(w io.Writer, f Format, result tabler) error {
	switch f {
	case JSON:
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		return encoder.Encode(result)
	case YAML:
		text, err := yaml.Marshal(result)
		if err != nil {
			return fmt.Errorf("encode result: %w", err)
		}
		_, err = w.Write(text)
		return err
	default:
		return result.table(w)
	}
}

// columns prints rows under a header, aligned.
func columns(w io.Writer, header []string, rows [][]string) error {
	return table.Write(w, 0, header, rows)
}
