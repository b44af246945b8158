package devlink

import (
	"testing"

	"github.com/mdlayher/genetlink"
	"github.com/mdlayher/netlink"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// infoAnswer is what Linux 6.1 answers for a netdevsim device, with what other drivers add.
func infoAnswer() []byte {
	return encode("netdevsim/netdevsim10", func(ae *netlink.AttributeEncoder) {
		ae.String(98, "netdevsim")
		ae.String(99, " 0123 ")
		ae.String(146, "B456")
		version(ae, 100, "board.id", "K65390-000")
		version(ae, 101, "fw.mgmt", "10.20.30")
		version(ae, 102, "fw.mgmt", "10.20.40")
		version(ae, 102, "fw.undi", "1.2581.0")
		ae.Bytes(4000, []byte("of a later kernel"))
	})
}

func TestKeepsVersionGroupsApart(t *testing.T) {
	info, err := parseInfo(infoAnswer(), Handle{"netdevsim", "netdevsim10"})
	require.NoError(t, err)
	assert.Equal(t, Info{
		Driver: "netdevsim", Serial: "0123", BoardSerial: "B456",
		Fixed:   map[string]string{"board.id": "K65390-000"},
		Running: map[string]string{"fw.mgmt": "10.20.30"},
		Stored:  map[string]string{"fw.mgmt": "10.20.40", "fw.undi": "1.2581.0"},
	}, info)
}

func TestRefusesOtherDevicesInfo(t *testing.T) {
	_, err := parseInfo(infoAnswer(), Handle{"netdevsim", "netdevsim1"})
	assert.ErrorContains(t, err, `the answer is about "netdevsim/netdevsim10"`)
}

func TestHandles(t *testing.T) {
	for _, s := range []string{"pci/0000:3b:00.0", "netdevsim/netdevsim1", "auxiliary/mlx5_core.sf.4"} {
		h, err := ParseHandle(s)
		require.NoError(t, err)
		assert.Equal(t, s, h.String())
	}
	for _, s := range []string{"", "pci", "/x", "pci/", "pci/0000:3b:00.0/1"} {
		_, err := ParseHandle(s)
		assert.Error(t, err, s)
	}
}

func TestPercentages(t *testing.T) {
	for _, test := range []struct {
		done, total uint64
		want        int
	}{{0, 1, 0}, {1, 3, 33}, {3, 3, 100}, {5, 3, 100}, {1 << 63, 1<<64 - 1, 50}} {
		assert.Equal(t, test.want, percentOf(test.done, test.total))
	}
}

func FuzzParseInfo(f *testing.F) {
	f.Add(infoAnswer())
	f.Add([]byte("Segmentation fault"))
	f.Fuzz(func(t *testing.T, data []byte) {
		info, err := parseInfo(data, Handle{"netdevsim", "netdevsim10"})
		if err != nil {
			assert.Zero(t, info)
			return
		}
		for _, group := range []map[string]string{info.Fixed, info.Running, info.Stored} {
			for name, value := range group {
				assert.NotEmpty(t, name)
				assert.NotEmpty(t, value)
			}
		}
	})
}

func FuzzParseStatus(f *testing.F) {
	f.Add(encode("netdevsim/netdevsim10", progress("Flashing", 1, 2)))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, s, err := parseStatus(genetlink.Message{Data: data})
		if err != nil {
			assert.Zero(t, s)
			return
		}
		reportTo(func(string, ...any) {})(s)
	})
}

func FuzzParseParam(f *testing.F) {
	for _, p := range parameters() {
		f.Add(paramMessage("netdevsim/netdevsim10", p).Data)
	}
	f.Add([]byte("Segmentation fault"))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, values, err := parseParam(data)
		if err != nil {
			assert.Empty(t, values)
			return
		}
		for _, v := range values {
			assert.NotEmpty(t, v.name)
			assert.True(t, v.value.Known)
			assert.NotContains(t, v.name, "/")
			if d := domainOf(v.kind); d.Length == nil {
				assert.NoError(t, encodeData(netlink.NewAttributeEncoder(), v.kind, v.value.Value), "what is read can be set")
			}
		}
	})
}

func TestRefusesParametersOfUnknownForm(t *testing.T) {
	good := fakeParam{Name: "max_macs", Kind: 3, Mode: 1, Value: "32"}
	for name, change := range map[string]func(*fakeParam){
		"another kind": func(p *fakeParam) { p.Kind = 0 },
		"another mode": func(p *fakeParam) { p.Mode = 3 },
		"no name":      func(p *fakeParam) { p.Name = "" },
		"a slash":      func(p *fakeParam) { p.Name = "max/macs" },
	} {
		p := good
		change(&p)
		_, values, err := parseParam(paramMessage("netdevsim/netdevsim10", p).Data)
		require.Error(t, err, name)
		assert.Empty(t, values, name)
	}
}
