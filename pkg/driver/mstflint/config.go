package mstflint

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// config runs mstconfig on a card. Every command line of that tool is made here, because without -d it would change all cards of the
// machine. -y answers the questions before a write; -yy, which newer versions have, would also reset the card, and is never given.
func config(card inventory.PCIAddress, args ...string) command.Command {
	return command.Command{Argv: append([]string{configTool, "-d", card.String()}, args...), Timeout: queryTimeout}
}

// queryConfig reads parameters with their default, current and next values: those of the names, or all of the card.
func queryConfig(card inventory.PCIAddress, names ...string) command.Command {
	return config(card, append([]string{"-e", "q"}, names...)...)
}

// tryConfig asks the tool whether it takes the values. It asks back before it writes, and reads no answer.
func tryConfig(card inventory.PCIAddress, settings []inventory.Setting) command.Command {
	return config(card, assignments(settings)...)
}

// setConfig stores values, and has the card load them with the next restart of the machine.
func setConfig(card inventory.PCIAddress, settings []inventory.Setting, lock string) command.Command {
	c := config(card, append([]string{"-y"}, assignments(settings)...)...)
	c.Kind, c.Lock, c.Timeout = command.Write, lock, 0
	return c
}

func assignments(settings []inventory.Setting) []string {
	args := []string{"s"}
	for _, s := range settings {
		args = append(args, s.Name+"="+s.Value)
	}
	return args
}

// isParameter matches the names that the tool is given: those of parameters, and of elements of arrays. Nothing else is, so that no name is
// taken for an option.
var isParameter = regexp.MustCompile(`^[A-Z][A-Z0-9_]*(\[[0-9]{1,3}\])?$`)

// nvRow is what the tool prints of a parameter.
type nvRow struct {
	name                    string
	readOnly                bool
	standard, current, next inventory.Reading
}

// notReported is what is printed for a value that the card does not report.
const notReported = "N/A"

// parseConfig reads the table of a query. Which columns it has depends on the card, and how wide they are on the tool. In the rows are a mark
// of a value that waits (*) or cannot be changed (RO), the name, and the values; none of them has blanks.
func parseConfig(out string) ([]nvRow, error) {
	_, table, ok := strings.Cut(out, "\nConfigurations:")
	if !ok {
		return nil, errors.New("parse mstconfig query: there is no table of configurations: this version of the tool is not supported")
	}
	header, body, _ := strings.Cut(table, "\n")
	columns := strings.Fields(strings.ReplaceAll(header, "Next Boot", "Next"))
	if !slices.Contains([]string{"Default Current Next", "Default Next", "Current Next", "Next"}, strings.Join(columns, " ")) {
		return nil, fmt.Errorf("parse mstconfig query: columns %q are not known: this version of the tool is not supported", strings.TrimSpace(header))
	}
	var rows []nvRow
	seen := map[string]bool{}
	for line := range strings.Lines(body) {
		line = strings.TrimRight(line, "\r\n")
		if line == "" || line[0] != ' ' && line[0] != '*' {
			break // what follows the table
		}
		row, err := parseRow(line, columns)
		if err != nil {
			return nil, err
		}
		if seen[row.name] {
			return nil, fmt.Errorf("parse mstconfig query: %s is listed twice", row.name)
		}
		seen[row.name] = true
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		return nil, errors.New("parse mstconfig query: the table of configurations is empty")
	}
	return rows, nil
}

func parseRow(line string, columns []string) (nvRow, error) {
	// The tool puts no blank behind a value of 16 characters, such as PCIE_ENDPOINT(0), up to the layout of 4.21.
	fields := strings.Fields(strings.ReplaceAll(strings.TrimPrefix(line, "*"), ")", ") "))
	row := nvRow{}
	if len(fields) == len(columns)+2 && fields[0] == "RO" {
		row.readOnly, fields = true, fields[1:]
	}
	if len(fields) != len(columns)+1 || !isParameter.MatchString(fields[0]) {
		return nvRow{}, fmt.Errorf("parse mstconfig query: %q is no row with %s: this version of the tool is not supported",
			strings.TrimSpace(line), strings.ToLower(strings.Join(columns, ", ")))
	}
	row.name = fields[0]
	for i, column := range columns {
		value := inventory.Read(fields[i+1])
		if value.Value == notReported {
			value = inventory.Reading{}
		}
		switch column {
		case "Default":
			row.standard = value
		case "Current":
			row.current = value
		case "Next":
			row.next = value
		}
	}
	return row, nil
}

// waits reports whether the row has a value that comes into force with a reset.
func (r nvRow) waits() bool { return r.parameter(0).Pending() }

// booleans are the values of switches.
var booleans = []string{"False(0)", "True(1)"}

// parameter is the row, for a card whose settings come into force by the kind of activation.
func (r nvRow) parameter(needs inventory.Activation) inventory.Parameter {
	p := inventory.Parameter{
		Name: r.name, Current: r.current, Next: r.next, Default: r.standard, Spelling: inventory.SpelledWithCode, Needs: needs,
	}
	switch {
	case strings.HasPrefix(r.next.Value, "Array["):
		p.ReadOnly = "it is an array, whose elements are set one by one: name one as in " + r.name + "[0]"
	case r.readOnly:
		p.ReadOnly = "the card's firmware does not let it be changed"
	case slices.ContainsFunc([]inventory.Reading{r.next, r.current, r.standard}, func(v inventory.Reading) bool { return slices.Contains(booleans, v.Value) }):
		p.Domain.Values = booleans
	}
	return p
}
