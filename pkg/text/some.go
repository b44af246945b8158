package text

import (
	"fmt"
	"strings"
)

// Some lists the first few names and says how many more there are.
func Some(names []string, few int) string {
	if len(names) <= few {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:few], ", "), len(names)-few)
}
