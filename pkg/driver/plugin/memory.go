package plugin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/nodefirmware/node-firmware-operator/pkg/durable"
)

// readMemory reads the recorded infos of plugins. Invalid entries are skipped: the plugins report them again.
func readMemory(path string) (map[string]Info, error) {
	known := map[string]Info{}
	if path == "" {
		return known, nil
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return known, nil
	}
	if err != nil {
		return known, fmt.Errorf("read the file of known plugins: %w", err)
	}
	var list []Info
	if err := json.Unmarshal(text, &list); err != nil {
		return known, fmt.Errorf("read the file of known plugins %s: %w", path, err)
	}
	for _, info := range list {
		if info.Check() == nil {
			known[info.Name] = info
		}
	}
	return known, nil
}

func writeMemory(path string, list []Info) error {
	if path == "" {
		return nil
	}
	text, err := json.Marshal(list)
	if err != nil {
		return fmt.Errorf("encode the file of known plugins: %w", err)
	}
	return durable.WriteFile(durable.OS{}, path, append(text, '\n'))
}
