package devlink

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/mdlayher/netlink"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Kinds of values, from include/uapi/linux/devlink.h (enum devlink_var_attr_type).
const (
	kindU8     = 1
	kindU16    = 2
	kindU32    = 3
	kindU64    = 4
	kindString = 5
	kindBool   = 6
)

// Configuration modes: when a value comes into force (enum devlink_param_cmode).
const (
	modeRuntime    = 0
	modeDriverInit = 1
	modePermanent  = 2
)

var modes = []string{modeRuntime: "runtime", modeDriverInit: "driverinit", modePermanent: "permanent"}

// maxText is __DEVLINK_PARAM_MAX_STRING_VALUE without the final NUL.
const maxText = 31

// maxParams bounds the answer of the kernel.
const maxParams = 1024

// param is one value of a parameter: the kernel keeps one for each mode that the parameter has.
type param struct {
	name string
	kind uint8
	mode uint8
	// value and standard, which is the default, as texts.
	value, standard inventory.Reading
}

// key is how the value is called here: the parameter's name, and the mode.
func (p param) key() string { return p.name + "/" + modes[p.mode] }

// parameter of an adapter. What is in force is known of runtime values alone: of the others the kernel keeps what will be, and the adapter
// or the driver what is. All but permanent values are the kernel's memory, which a boot empties.
func (p param) parameter(refusal string) inventory.Parameter {
	out := inventory.Parameter{
		Name: p.key(), Next: p.value, Default: p.standard, ReadOnly: refusal, Volatile: p.mode != modePermanent, Domain: domainOf(p.kind),
	}
	if p.kind != kindString && p.kind != kindBool {
		out.Spelling = inventory.SpelledAsNumber
	}
	switch p.mode {
	case modeRuntime:
		out.Current, out.Disturbs = p.value, true // some have the device reset itself
	case modeDriverInit:
		out.Needs = inventory.ActivateDriverReload
	case modePermanent:
		out.Needs = inventory.ActivateReboot
	}
	return out
}

func domainOf(kind uint8) inventory.Domain {
	number := func(most int64) inventory.Domain { return inventory.Domain{Number: &inventory.Interval{Max: most}} }
	switch kind {
	case kindU8:
		return number(math.MaxUint8)
	case kindU16:
		return number(math.MaxUint16)
	case kindU32:
		return number(math.MaxUint32)
	case kindU64:
		return number(math.MaxInt64)
	case kindString:
		return inventory.Domain{Length: &inventory.Interval{Max: maxText}}
	}
	return inventory.Domain{Values: []string{"false", "true"}}
}

// parseParam reads one parameter from the kernel's answer.
func parseParam(data []byte) (of Handle, values []param, err error) {
	ad, err := netlink.NewAttributeDecoder(data)
	if err != nil {
		return Handle{}, nil, fmt.Errorf("parse parameter: %w", err)
	}
	for ad.Next() {
		switch ad.Type() {
		case attrBusName:
			of.Bus = ad.String()
		case attrDevName:
			of.Device = ad.String()
		case attrParam:
			ad.Nested(func(nested *netlink.AttributeDecoder) error {
				values, err = decodeParam(nested)
				return err
			})
		}
	}
	if err := cmp.Or(ad.Err(), err); err != nil {
		return Handle{}, nil, fmt.Errorf("parse parameter of %s: %w", of, err)
	}
	return of, values, nil
}

// decodeParam reads the name, the kind, and one value for each mode.
func decodeParam(ad *netlink.AttributeDecoder) ([]param, error) {
	var p param
	var list []byte
	for ad.Next() {
		switch ad.Type() {
		case attrParamName:
			p.name = ad.String()
		case attrParamType:
			p.kind = ad.Uint8()
		case attrParamValues:
			list = ad.Bytes()
		}
	}
	if err := ad.Err(); err != nil {
		return nil, err
	}
	if p.kind < kindU8 || p.kind > kindBool || p.name == "" || strings.ContainsAny(p.name, "/ \t\n\x00") {
		return nil, fmt.Errorf("parameter %q has values of the unknown kind %d", p.name, p.kind)
	}
	values, err := netlink.NewAttributeDecoder(list)
	if err != nil {
		return nil, err
	}
	var out []param
	for values.Next() {
		if values.Type() == attrParamValue {
			values.Nested(func(nested *netlink.AttributeDecoder) error {
				v, err := decodeValue(p, nested)
				out = append(out, v)
				return err
			})
		}
	}
	return out, values.Err()
}

// decodeValue reads the value of one mode. Of a boolean it is a flag, which says true by being there, and the default is a byte.
func decodeValue(p param, ad *netlink.AttributeDecoder) (param, error) {
	if p.kind == kindBool {
		p.value = inventory.Read("false")
	}
	mode := -1
	for ad.Next() {
		switch ad.Type() {
		case attrParamValueMode:
			mode = int(ad.Uint8())
		case attrParamValueData:
			if p.kind == kindBool {
				p.value = inventory.Read("true")
				continue
			}
			p.value = inventory.Read(decodeData(p.kind, ad))
		case attrParamValueDefault:
			if p.kind == kindBool {
				p.standard = inventory.Read(strconv.FormatBool(ad.Uint8() != 0))
				continue
			}
			p.standard = inventory.Read(decodeData(p.kind, ad))
		}
	}
	switch err := ad.Err(); {
	case err != nil:
		return param{}, err
	case mode < 0 || mode >= len(modes):
		return param{}, fmt.Errorf("parameter %s has a value of the unknown mode %d", p.name, mode)
	case !p.value.Known:
		return param{}, fmt.Errorf("parameter %s has no value", p.name)
	}
	p.mode = uint8(mode)
	return p, nil
}

func decodeData(kind uint8, ad *netlink.AttributeDecoder) string {
	switch kind {
	case kindU8:
		return strconv.FormatUint(uint64(ad.Uint8()), 10)
	case kindU16:
		return strconv.FormatUint(uint64(ad.Uint16()), 10)
	case kindU32:
		return strconv.FormatUint(uint64(ad.Uint32()), 10)
	case kindU64:
		return strconv.FormatUint(ad.Uint64(), 10)
	}
	return strings.ToValidUTF8(ad.String(), "?")
}

// encodeData adds a value to a request. A boolean is true by being there.
func encodeData(ae *netlink.AttributeEncoder, kind uint8, value string) error {
	if kind == kindBool {
		on, err := strconv.ParseBool(value)
		if on {
			ae.Flag(attrParamValueData, true)
		}
		return err
	}
	if kind == kindString {
		if len(value) > maxText || strings.Contains(value, "\x00") {
			return fmt.Errorf("%q is longer than %d bytes", value, maxText)
		}
		ae.String(attrParamValueData, value)
		return nil
	}
	bits := map[uint8]int{kindU8: 8, kindU16: 16, kindU32: 32, kindU64: 64}[kind]
	number := inventory.ParseNumber(value)
	if number == nil || number.Sign() < 0 || number.BitLen() > bits {
		return fmt.Errorf("%q is no number of %d bits", value, bits)
	}
	n := number.Uint64()
	switch kind {
	case kindU8:
		ae.Uint8(attrParamValueData, uint8(n))
	case kindU16:
		ae.Uint16(attrParamValueData, uint16(n))
	case kindU32:
		ae.Uint32(attrParamValueData, uint32(n))
	case kindU64:
		ae.Uint64(attrParamValueData, n)
	}
	return nil
}

// params reads all parameters of a device, in order of their keys; none where its driver has none. It blocks while the kernel writes or
// reloads the device, and on kernels before 6.5 while it does so with any device.
func (dial Dialer) params(h Handle) ([]param, error) {
	c, err := dial.open()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	answer, err := c.request(cmdParamGet, h, netlink.Dump, func(*netlink.AttributeEncoder) {})
	if err != nil {
		return nil, fmt.Errorf("ask for parameters of %s: %w", h, err)
	}
	var all []param
	for _, m := range answer {
		of, values, err := parseParam(m.Data)
		switch {
		case err != nil:
			return nil, err
		case of == h: // kernels before 6.5 answer for all devices
			all = append(all, values...)
		}
	}
	if len(all) > maxParams {
		return nil, fmt.Errorf("ask for parameters of %s: the kernel reports %d, more than %d", h, len(all), maxParams)
	}
	slices.SortFunc(all, func(a, b param) int { return strings.Compare(a.key(), b.key()) })
	return all, nil
}

// errBadParam says that a device has no such parameter, or not one with such values. Nothing was requested from the kernel.
var errBadParam = errors.New("the device does not take it")

// setParam gives one parameter of a device its value for a mode. The kind of the value is what the kernel says now: it refuses another.
func (dial Dialer) setParam(h Handle, key, value string) error {
	all, err := dial.params(h)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(p param) bool { return p.key() == key })
	if i < 0 {
		return fmt.Errorf("set %s of %s: %w: there is no such parameter", key, h, errBadParam)
	}
	p := all[i]
	if err := encodeData(netlink.NewAttributeEncoder(), p.kind, value); err != nil {
		return fmt.Errorf("set %s of %s: %w: %w", key, h, errBadParam, err)
	}
	c, err := dial.open()
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.request(cmdParamSet, h, netlink.Acknowledge, func(ae *netlink.AttributeEncoder) {
		ae.String(attrParamName, p.name)
		ae.Uint8(attrParamType, p.kind)
		ae.Uint8(attrParamValueMode, p.mode)
		_ = encodeData(ae, p.kind, value) // was found good above
	})
	if err != nil {
		return fmt.Errorf("set %s of %s: %w", key, h, err)
	}
	return nil
}
