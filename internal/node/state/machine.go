package state

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/host"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
)

// Machine is what tells one machine from another. What is not known is empty.
type Machine struct {
	// UUID and Serial are the machine's own, as SMBIOS says; Serial is that of the main board where the machine has none.
	UUID   string `json:"uuid,omitempty"`
	Serial string `json:"serial,omitempty"`
	// System is made of the id of the installed system, which is confidential (machine-id(5)).
	System string `json:"system,omitempty"`
}

const machineIDFile = "etc/machine-id"

var machineID = regexp.MustCompile(`^[0-9a-f]{32}$`)

// ReadMachine reads what tells this machine from others, below the root of the host. Vendors leave the same text in the tables of many
// machines; such a text counts as none.
func ReadMachine(root fs.FS) (Machine, error) {
	var m Machine
	dmi, err := sysfs.ReadDMI(root)
	if err != nil {
		return m, fmt.Errorf("read which machine this is: %w", err)
	}
	if dmi != nil {
		m.UUID = known(strings.ToLower(dmi.ProductUUID))
		m.Serial = cmp.Or(known(dmi.ProductSerial), known(dmi.BoardSerial))
	}
	id, err := fs.ReadFile(root, machineIDFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return m, fmt.Errorf("read which machine this is: %w", err)
	}
	if id := strings.TrimSpace(string(id)); machineID.MatchString(id) && strings.Trim(id, "0") != "" {
		h := hmac.New(sha256.New, []byte(id))
		h.Write([]byte("node-firmware state directory"))
		m.System = hex.EncodeToString(h.Sum(nil)[:16])
	}
	return m, nil
}

func known(id string) string {
	if host.IsSet(id) {
		return id
	}
	return ""
}

// isOther reports whether the state of a machine is not of this one. The first id decides that is known of both: a shared chassis or a
// hypervisor may give several machines one serial number, and a copied disk has the machine id of the first.
func (m Machine) isOther(of Machine) bool {
	switch {
	case m.UUID != "" && of.UUID != "":
		return m.UUID != of.UUID && m.UUID != otherOrder(of.UUID)
	case m.Serial != "" && of.Serial != "":
		return m.Serial != of.Serial
	}
	return m.System != "" && of.System != "" && m.System != of.System
}

// otherOrder is a UUID with the bytes of its first three fields in the other order. SMBIOS 2.6 said which one is meant, and a new BIOS or
// kernel may read the same table in another way than the one before.
func otherOrder(uuid string) string {
	if len(uuid) != 36 {
		return uuid
	}
	fields := strings.Split(uuid[:18], "-")
	for i, field := range fields {
		swapped := ""
		for ; len(field) > 1; field = field[2:] {
			swapped = field[:2] + swapped
		}
		fields[i] = swapped
	}
	return strings.Join(fields, "-") + uuid[18:]
}

// or is the machine with what was known of it before and is not known now.
func (m Machine) or(before Machine) Machine {
	return Machine{UUID: cmp.Or(m.UUID, before.UUID), Serial: cmp.Or(m.Serial, before.Serial), System: cmp.Or(m.System, before.System)}
}

// differs says for people how the machine that the state is of differs from this one.
func (m Machine) differs(of Machine) string {
	switch {
	case m.Serial != "" && of.Serial != "" && m.Serial != of.Serial:
		return fmt.Sprintf("serial number %s; this one is %s", of.Serial, m.Serial)
	case m.UUID != "" && of.UUID != "" && m.UUID != of.UUID:
		return fmt.Sprintf("UUID %s; this one is %s", of.UUID, m.UUID)
	}
	return "another /etc/machine-id"
}
