package devlink

import (
	"encoding/binary"
	"io"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/mdlayher/genetlink"
	"github.com/mdlayher/netlink"
)

var sizes = map[uint8]int{1: 1, 2: 2, 3: 4, 4: 8}

// params answers a dump as kernels before 6.5 do, which report the parameters of all devices.
func (k *fakeKernel) params(a adapter) []genetlink.Message {
	out := []genetlink.Message{paramMessage("pci/0000:99:00.0", fakeParam{Name: "enable_roce", Kind: 6, Mode: 1, Value: "true"})}
	for i, p := range a.Params {
		if i > 0 && a.Params[i-1].Name == p.Name {
			continue
		}
		of := slices.DeleteFunc(slices.Clone(a.Params), func(q fakeParam) bool { return q.Name != p.Name })
		out = append(out, paramMessage(a.Handle, of...))
	}
	if text, garbage := k.faulty("garbage"); garbage {
		out = []genetlink.Message{{Data: []byte(text)}}
	}
	return out
}

// paramMessage has one parameter with its values.
func paramMessage(handle string, values ...fakeParam) genetlink.Message {
	data := encode(handle, func(ae *netlink.AttributeEncoder) {
		ae.Nested(80, func(nae *netlink.AttributeEncoder) error {
			nae.String(81, values[0].Name)
			nae.Flag(82, true)
			nae.Uint8(83, values[0].Kind)
			nae.Nested(84, func(list *netlink.AttributeEncoder) error {
				for _, v := range values {
					list.Nested(85, func(value *netlink.AttributeEncoder) error {
						if v.Kind == 6 {
							value.Flag(86, v.Value == "true")
							if v.Default != "" {
								value.Bytes(182, []byte{map[string]byte{"true": 1}[v.Default]})
							}
						} else {
							value.Bytes(86, raw(v.Kind, v.Value))
							if v.Default != "" {
								value.Bytes(182, raw(v.Kind, v.Default))
							}
						}
						value.Uint8(87, v.Mode)
						return nil
					})
				}
				return nil
			})
			return nil
		})
	})
	return genetlink.Message{Header: genetlink.Header{Command: 38}, Data: data}
}

// raw is a value in the kernel's form.
func raw(kind uint8, value string) []byte {
	if kind == 5 {
		return append([]byte(value), 0)
	}
	n, err := strconv.ParseUint(value, 10, 64)
	if err != nil {
		panic(err)
	}
	return binary.NativeEndian.AppendUint64(nil, n)[:sizes[kind]] // of a little-endian machine
}

// setParam checks a request as net/devlink/param.c does.
func (k *fakeKernel) setParam(a adapter, r request) error {
	if text, fails := k.faulty("fail"); fails {
		return refuse(syscall.EIO, text)
	}
	if err := k.refusal(); err != nil {
		return err
	}
	i := slices.IndexFunc(a.Params, func(p fakeParam) bool { return p.Name == r.param.Name })
	if i < 0 || a.Params[i].Kind != r.param.Kind {
		return refuse(syscall.EINVAL, "")
	}
	i = slices.IndexFunc(a.Params, func(p fakeParam) bool { return p.Name == r.param.Name && p.Mode == r.param.Mode })
	if i < 0 {
		return refuse(syscall.EOPNOTSUPP, "")
	}
	p := &a.Params[i]
	switch p.Kind {
	case 6:
		if len(r.data) > 0 {
			return refuse(syscall.EINVAL, "")
		}
		p.Value = strconv.FormatBool(r.data != nil)
	case 5:
		text, ended := strings.CutSuffix(string(r.data), "\x00")
		if !ended || len(text) > 31 {
			return refuse(syscall.EINVAL, "")
		}
		p.Value = text
	default:
		if len(r.data) != sizes[p.Kind] {
			return refuse(syscall.EINVAL, "")
		}
		p.Value = strconv.FormatUint(binary.NativeEndian.Uint64(append(r.data, make([]byte, 8)...)), 10)
	}
	if err := k.hang(); err != nil {
		return err
	}
	if _, lies := k.faulty("lie"); !lies {
		if err := k.save(a); err != nil {
			return err
		}
	}
	return io.EOF // acknowledges
}
