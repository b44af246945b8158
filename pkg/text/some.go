package text

import (
	"fmt"
	"strings"
)

// Some lists the first few of the names, and how many there are besides.
func Some(names []string, few int) string {
	if len(names) <= few {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:few], ", "), len(names)-few)
}
