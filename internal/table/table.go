package table

import (
	"cmp"
	"io"
	"strings"
	"unicode/utf8"
)

const (
	// gap is between two columns.
	gap = 3
	// least is how narrow a column is made.
	least = 8
	// enough is how many bytes of whole lines are written at once.
	enough = 32 << 10
)

// Write prints rows under a header. An empty cell is a dash, so that scripts can cut columns. Where the rows are wider than the width, which is
// in characters and 0 for any, the columns that give way are cut, the widest first. Lines do not end in blanks.
func Write(w io.Writer, width int, header []string, rows [][]string, givesWay ...int) error {
	all := make([][]string, 0, len(rows)+1)
	for _, row := range append([][]string{header}, rows...) {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = cmp.Or(strings.Join(strings.Fields(cell), " "), "-")
		}
		all = append(all, cells)
	}
	widths := make([]int, len(header))
	for _, row := range all {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	if width > 0 {
		narrow(widths, width, givesWay)
	}
	var lines strings.Builder
	for at, row := range all {
		for i, cell := range row {
			cell = cut(cell, widths[i])
			lines.WriteString(cell)
			if i < len(row)-1 {
				lines.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+gap))
			}
		}
		lines.WriteByte('\n')
		if at < len(all)-1 && lines.Len() < enough {
			continue
		}
		if _, err := io.WriteString(w, lines.String()); err != nil {
			return err
		}
		lines.Reset()
	}
	return nil
}

// narrow takes from the widest of the columns that give way until the line fits, or nothing more can be taken.
func narrow(widths []int, width int, givesWay []int) {
	line := gap * (len(widths) - 1)
	for _, w := range widths {
		line += w
	}
	for ; line > width; line-- {
		widest := -1
		for _, i := range givesWay {
			if widths[i] > least && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return
		}
		widths[widest]--
	}
}

// cut shortens a text to a number of characters. The last of them says that it is cut.
func cut(s string, characters int) string {
	if utf8.RuneCountInString(s) <= characters {
		return s
	}
	return string([]rune(s)[:max(characters-1, 0)]) + "…"
}
