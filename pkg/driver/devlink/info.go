package devlink

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mdlayher/netlink"
)

// Info is the kernel's description of a device. Its three groups are separate: a version that is stored and not running
// waits for its activation.
type Info struct {
	// Driver is the kernel driver.
	Driver string
	// Serial is the serial number of the chip, BoardSerial that of the board; empty when the kernel reports none.
	Serial, BoardSerial string
	// Fixed are the versions that identify the hardware design, by name.
	Fixed map[string]string
	// Running and Stored are the versions of its firmware, by name.
	Running, Stored map[string]string
}

func parseInfo(data []byte, h Handle) (Info, error) {
	info := Info{Fixed: map[string]string{}, Running: map[string]string{}, Stored: map[string]string{}}
	ad, err := netlink.NewAttributeDecoder(data)
	if err != nil {
		return Info{}, fmt.Errorf("parse info of %s: %w", h, err)
	}
	var of Handle
	for ad.Next() {
		switch ad.Type() {
		case attrBusName:
			of.Bus = ad.String()
		case attrDevName:
			of.Device = ad.String()
		case attrInfoDriverName:
			info.Driver = ad.String()
		case attrInfoSerialNumber:
			info.Serial = strings.TrimSpace(ad.String())
		case attrInfoBoardSerialNumber:
			info.BoardSerial = strings.TrimSpace(ad.String())
		case attrInfoVersionFixed:
			ad.Nested(versionInto(info.Fixed))
		case attrInfoVersionRunning:
			ad.Nested(versionInto(info.Running))
		case attrInfoVersionStored:
			ad.Nested(versionInto(info.Stored))
		}
	}
	if err := ad.Err(); err != nil {
		return Info{}, fmt.Errorf("parse info of %s: %w", h, err)
	}
	if of != h {
		return Info{}, fmt.Errorf("parse info of %s: the answer is about %q", h, of)
	}
	return info, nil
}

// versionInto reads one version and its name.
func versionInto(group map[string]string) func(*netlink.AttributeDecoder) error {
	return func(ad *netlink.AttributeDecoder) error {
		var name, value string
		for ad.Next() {
			switch ad.Type() {
			case attrInfoVersionName:
				name = ad.String()
			case attrInfoVersionValue:
				value = ad.String()
			}
		}
		if name != "" && value != "" {
			group[name] = value
		}
		return nil
	}
}

// names lists the names of a group, for messages.
func names(group map[string]string) string {
	if len(group) == 0 {
		return "none"
	}
	return strings.Join(slices.Sorted(maps.Keys(group)), ", ")
}
