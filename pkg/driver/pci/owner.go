package pci

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// appliedByOperator is where the sriov-network-operator keeps what it gave a port, in a file for each, until it lets go of the port
// (consts.PfAppliedConfig; host.SaveLastPfAppliedStatus).
const appliedByOperator = "etc/sriov-operator/pci"

// maxApplied bounds such a file in bytes.
const maxApplied = 1 << 20

// owned says why the virtual functions of a port are left alone; empty when they are not: two programs that write the same files undo each other's
// changes for ever. The sriov-network-operator leaves the number of those of a port that is managed externally to others.
func owned(host fs.FS, port inventory.PCIAddress) string {
	name := path.Join(appliedByOperator, port.String())
	applied := struct {
		ExternallyManaged bool `json:"externallyManaged"`
	}{}
	f, err := host.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	if err == nil {
		defer f.Close()
		err = json.NewDecoder(io.LimitReader(f, maxApplied)).Decode(&applied)
	}
	switch {
	case err != nil:
		return fmt.Sprintf("it is not known whether the sriov-network-operator sets up port %s: read /%s: %v", port, name, err)
	case applied.ExternallyManaged:
		return ""
	}
	return fmt.Sprintf("port %s is set up by the sriov-network-operator (/%s): change it there, or take the port from it", port, name)
}
