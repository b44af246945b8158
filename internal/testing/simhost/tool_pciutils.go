package simhost

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// rootPort is the address of the root port above a slot.
func rootPort(slot string) string {
	parts := strings.Split(slot, ":")
	bus, _ := strconv.ParseUint(parts[1], 16, 8)
	return fmt.Sprintf("%s:%02x:02.0", parts[0], (bus-1)&0xff)
}

// lspci lists the functions of the bus that "-s" names, or all; of its formats it has "-D" alone.
func lspci(c *call) (int, error) {
	o, err := optionTable{"s": "slot=", "D": "domain"}.parse(c.argv[1:])
	if err != nil {
		return c.fail(1, "lspci: %v\n", err)
	}
	entries, err := os.ReadDir(filepath.Join(c.m.dir, "sys/bus/pci/devices"))
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), o.values["slot"]) {
			c.printf("%s\n", e.Name())
		}
	}
	return 0, nil
}

// setpci reads one register of the configuration space of a function: "setpci -s 0000:3b:00.0 0x0.w".
func setpci(c *call) (int, error) {
	o, err := optionTable{"s": "slot="}.parse(c.argv[1:])
	if err != nil || len(o.args) != 1 || strings.Contains(o.args[0], "=") {
		return c.fail(1, "setpci: this simulation reads one register of the device that -s names\n")
	}
	config, err := os.ReadFile(filepath.Join(c.m.dir, "sys/bus/pci/devices", o.values["slot"], "config"))
	if errors.Is(err, fs.ErrNotExist) {
		return c.fail(1, "setpci: Warning: No devices selected for \"%s\".\n", o.args[0])
	} else if err != nil {
		return 0, err
	}
	at, width, _ := strings.Cut(strings.ToLower(o.args[0]), ".")
	bytes := slices.Index([]string{"b", "w", "", "l"}, width) + 1
	offset, err := strconv.ParseUint(strings.TrimPrefix(at, "0x"), 16, 12)
	if err != nil || width == "" || bytes == 0 || int(offset)+bytes > len(config) {
		return c.fail(1, "setpci: Invalid register \"%s\"\n", o.args[0])
	}
	var word [4]byte
	copy(word[:], config[offset:int(offset)+bytes])
	c.printf("%0*x\n", 2*bytes, binary.LittleEndian.Uint32(word[:]))
	return 0, nil
}
