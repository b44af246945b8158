package sysfs

import (
	"bytes"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs/sysfstest"
)

func FuzzDeviceSerialNumber(f *testing.F) {
	f.Add([]byte{})
	f.Add(make([]byte, 4096))
	loop := make([]byte, 4096)
	copy(loop[0x100:], []byte{1, 0, 1, 0x10})
	f.Add(loop)
	f.Fuzz(func(t *testing.T, config []byte) {
		if got := deviceSerialNumber(config); got != "" {
			assert.Len(t, got, 16)
		}
	})
}

func FuzzMaxReadRequest(f *testing.F) {
	f.Add([]byte{})
	config := make([]byte, 256)
	config[0x06], config[0x34], config[0x40], config[0x49] = 0x10, 0x40, 0x10, 0xd9
	f.Add(config)
	loop := make([]byte, 256)
	loop[0x06], loop[0x34], loop[0x41] = 0x10, 0x40, 0x40
	f.Add(loop)
	f.Add(bytes.Repeat([]byte{0xff}, 256))
	f.Fuzz(func(t *testing.T, config []byte) {
		r := maxReadRequest(config)
		if r == nil {
			return
		}
		assert.Contains(t, ReadRequestSizes, r.Bytes)
		require.Less(t, r.At, int64(len(config)))
		for _, size := range ReadRequestSizes {
			control, err := r.With(size)
			require.NoError(t, err)
			assert.Zero(t, control&0x80, "would reset the function")
			assert.Equal(t, config[r.At]&0x0f, control&0x0f)
		}
		_, err := r.With(r.Bytes + 1)
		require.Error(t, err)
	})
}

func FuzzUnitSerial(f *testing.F) {
	f.Add([]byte{0, 0x80, 0, 4, 'a', 'b', ' ', 0})
	f.Add([]byte{0, 0x80, 0xff, 0xff, 'a'})
	f.Fuzz(func(t *testing.T, page []byte) {
		got := unitSerial(page)
		assert.LessOrEqual(t, len(got), len(page))
		assert.True(t, utf8.ValidString(got))
	})
}

func FuzzAttributes(f *testing.F) {
	f.Add("0x15b3")
	f.Add("-1")
	f.Add("\xff\x00")
	f.Fuzz(func(t *testing.T, content string) {
		m := sysfstest.NewMachine()
		dir := m.PCI(sysfstest.Function{Address: "0000:3b:00.0", Vendor: content, Device: content, Class: "020000"})
		m.Interface(dir, "eth0", map[string]string{"address": content, "type": content, "phys_port_name": content})
		interfaces, err := NetInterfaces(m)
		require.NoError(t, err)
		require.Len(t, interfaces, 1)
		function := interfaces[0].Device.Function
		assert.Equal(t, clean(interfaces[0].PortName), interfaces[0].PortName)
		if interfaces[0].Err == nil && function.Vendor != "" {
			assert.Regexp(t, `^[0-9a-f]{4,8}$`, function.Vendor)
		}
	})
}

func FuzzSCSIHosts(f *testing.F) {
	f.Add("0x500605b00dd9c7b0")
	f.Add("0x0")
	f.Add("-1\x00")
	f.Fuzz(func(t *testing.T, content string) {
		m := sysfstest.NewMachine()
		hba := m.PCI(sysfstest.Function{Address: "0000:18:00.0", Vendor: "1000", Device: "00ac", Class: "010700"})
		m.SCSIHost(hba, "host0", map[string]string{"host_sas_address": content, "board_tracer": content})
		hosts, err := SCSIHosts(m)
		require.NoError(t, err)
		require.Len(t, hosts, 1)
		assert.Equal(t, clean(hosts[0].Serial), hosts[0].Serial)
		if hosts[0].SASAddress != "" {
			assert.Regexp(t, `^[0-9a-f]{16}$`, hosts[0].SASAddress)
		}
	})
}

func FuzzMounts(f *testing.F) {
	f.Add("29 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw")
	f.Add(`36 29 0:31 /@ /srv/my\040data rw - btrfs /dev/sdb rw`)
	f.Add("Segmentation fault")
	f.Fuzz(func(t *testing.T, content string) {
		m := sysfstest.NewMachine()
		for _, name := range []string{"proc/1/mountinfo", "proc/swaps", "run/udev/data/b8:1"} {
			m.File(name, content)
		}
		mounts, err := Mounts(m)
		for _, mount := range mounts {
			assert.NotEmpty(t, mount.Number)
			assert.NotEmpty(t, mount.Point)
		}
		_, swapsErr := Swaps(m)
		_, _, contentErr := Content(m, "8:1")
		if err == nil { // a table of mounts has no line that is too long
			require.NoError(t, swapsErr)
			require.NoError(t, contentErr)
		}
	})
}

func FuzzFirmwareTime(f *testing.F) {
	f.Add([]byte("21947164731\n"))
	f.Add([]byte("\x06\x00\x00\x009\x000\x00\x00\x00"))
	f.Add([]byte("9223372036854775808"))
	f.Add([]byte{0xff, 0xd8})
	f.Fuzz(func(t *testing.T, content []byte) {
		for _, name := range []string{launchFile, EFIVariables + "/" + loaderTime + "-" + loaderGUID} {
			m := sysfstest.NewMachine()
			m.File(name, string(content))
			got, err := ReadFirmwareTime(m)
			assert.GreaterOrEqual(t, got.Took, time.Duration(0))
			assert.LessOrEqual(t, got.Took, maxFirmwareTime)
			assert.Equal(t, got.Took > 0, got.By != "", "what nobody says is said by nobody")
			if err != nil {
				assert.Zero(t, got)
			}
		}
	})
}

func FuzzFirmwareAttributes(f *testing.F) {
	f.Add("enumeration", "Enabled", "Disabled;Enabled;", "1")
	f.Add("integer", "-1", "0x10", "many")
	f.Add("string\x00", "\xff", ";;", "")
	f.Fuzz(func(t *testing.T, kind, value, list, number string) {
		m := sysfstest.NewMachine()
		const dir = "sys/devices/virtual/firmware-attributes/vendor"
		m.Link("sys/class/firmware-attributes/vendor", dir)
		m.Files(dir+"/attributes/Option", map[string]string{
			"type": kind, "current_value": value, "default_value": value, "possible_values": list, "elements": list,
			"min_value": number, "max_value": number, "scalar_increment": number, "min_length": number, "max_length": number,
		})
		m.Files(dir+"/authentication/Admin", map[string]string{"is_enabled": number, "role": kind, "mechanism": kind})
		interfaces, err := FirmwareInterfaces(m)
		require.NoError(t, err)
		for _, way := range interfaces[0].Authentications {
			assert.True(t, way.Enabled || way.Err == nil)
		}
		require.Len(t, interfaces, 1)
		require.Equal(t, []string{"Option"}, interfaces[0].Attributes)
		a := interfaces[0].ReadAttribute(m, "Option")
		if a.Err == nil {
			assert.Contains(t, []string{"enumeration", "integer", "string", "ordered-list"}, a.Type)
			assert.Equal(t, clean(value), *a.Current)
			assert.NotContains(t, a.Possible, "")
		}
	})
}
