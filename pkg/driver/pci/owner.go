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

// Owner names the program that sets up a port on this machine in the place of this product, such as another operator; empty when none
// does. An error says that this is not known.
type Owner func(port inventory.PCIAddress) (string, error)

// appliedByOperator is where the sriov-network-operator keeps what it gave a port, in a file for each, until it lets go of the port
// (consts.PfAppliedConfig; host.SaveLastPfAppliedStatus).
const appliedByOperator = "etc/sriov-operator/pci"

// maxApplied bounds such a file in bytes.
const maxApplied = 1 << 20

// onHost is the owner by what it keeps on the host. The sriov-network-operator leaves the number of virtual functions of a port that is
// managed externally to others.
func onHost(host fs.FS) Owner {
	return func(port inventory.PCIAddress) (string, error) {
		name := path.Join(appliedByOperator, port.String())
		f, err := host.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			return "", nil
		}
		if err != nil {
			return "", fmt.Errorf("read what the sriov-network-operator applied: %w", err)
		}
		defer f.Close()
		var applied struct {
			ExternallyManaged bool `json:"externallyManaged"`
		}
		if err := json.NewDecoder(io.LimitReader(f, maxApplied)).Decode(&applied); err != nil {
			return "", fmt.Errorf("read what the sriov-network-operator applied (/%s): %w", name, err)
		}
		if applied.ExternallyManaged {
			return "", nil
		}
		return fmt.Sprintf("the sriov-network-operator (/%s)", name), nil
	}
}
