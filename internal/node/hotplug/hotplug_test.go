package hotplug_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"

	"github.com/nodefirmware/node-firmware-operator/internal/node/hotplug"
)

func TestOnlyEventsOfHardwareCount(t *testing.T) { // R001-2
	for message, want := range map[string]bool{
		"add@/devices/pci0000:00/0000:00:01.0\x00ACTION=add\x00SUBSYSTEM=pci\x00":                   true,
		"remove@/devices/pci0000:00/0000:00:02.0/nvme/nvme0\x00ACTION=remove\x00SUBSYSTEM=nvme\x00": true,
		"add@/devices/virtual/net/veth1\x00ACTION=add\x00SUBSYSTEM=net\x00":                         false,
		"change@/devices/pci0000:00/0000:00:01.0\x00ACTION=change\x00SUBSYSTEM=pci\x00":             false,
		"libudev\x00\xfe\xed\xca\xfe": false,
		"":                            false,
	} {
		e, ok := hotplug.ParseUevent([]byte(message))
		assert.Equal(t, want, ok && e.Hardware([]string{"pcie"}), "%q", message)
	}
}

// fabricsEvent is a message of the kernel about the controller of a drive behind a network, with all that the kernel says: the first
// line of kobject_uevent_env (Linux, lib/kobject_uevent.c), the variables of every device with a number (drivers/base/core.c,
// dev_uevent), and those of a controller (drivers/nvme/host/core.c, nvme_class_uevent).
func fabricsEvent(action, path, subsystem string, more ...string) []byte {
	lines := append([]string{action + "@" + path, "ACTION=" + action, "DEVPATH=" + path, "SUBSYSTEM=" + subsystem}, more...)
	lines = append(lines, "MAJOR=242", "MINOR=0", "DEVNAME=nvme0", "NVME_TRTYPE=tcp", "NVME_TRADDR=192.0.2.7", "NVME_TRSVCID=4420",
		"NVME_HOST_TRADDR=none", "NVME_HOST_IFACE=none", "SEQNUM=3326", "")
	return []byte(strings.Join(lines, "\x00"))
}

// A drive behind a network is a virtual device to the kernel, and hardware to people.
func TestNetworkDriveIsHardware(t *testing.T) { // R001-2
	const controller = "/devices/virtual/nvme-fabrics/ctl/nvme0"
	for name, c := range map[string]struct {
		message []byte
		want    bool
	}{
		"its controller is made":       {fabricsEvent("add", controller, "nvme"), true},
		"it is connected":              {fabricsEvent("change", controller, "nvme", "NVME_EVENT=connected"), true},
		"it is disconnected":           {fabricsEvent("remove", controller, "nvme"), true},
		"its discovery log changed":    {fabricsEvent("change", controller, "nvme", "NVME_EVENT=rediscover"), false},
		"it reports an event":          {fabricsEvent("change", controller, "nvme", "NVME_AEN=0x70f002"), false},
		"the way to make controllers":  {fabricsEvent("add", "/devices/virtual/nvme-fabrics/ctl", "nvme-fabrics"), false},
		"its hidden path":              {fabricsEvent("remove", controller+"/nvme0c0n1", "block"), false},
		"its namespace":                {fabricsEvent("add", "/devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1", "block"), false},
		"its subsystem":                {fabricsEvent("add", "/devices/virtual/nvme-subsystem/nvme-subsys0", "nvme-subsystem"), false},
		"a drive of the machine reset": {fabricsEvent("change", "/devices/pci0000:00/0000:00:01.1/0000:01:00.0/nvme/nvme0", "nvme", "NVME_EVENT=connected"), false},
	} {
		e, ok := hotplug.ParseUevent(c.message)
		assert.True(t, ok, name)
		assert.Equal(t, c.want, e.Hardware([]string{"pcie", "tcp"}), name)
		assert.False(t, e.Hardware([]string{"pcie", "rdma"}) && strings.HasPrefix(e.Path, controller), "%s: volumes of pods come and go", name)
	}
}

// Kernels before 5.4 do not name the transport.
func TestADriveBehindANetworkMayNotNameItsTransport(t *testing.T) {
	e, ok := hotplug.ParseUevent([]byte("add@/devices/virtual/nvme-fabrics/ctl/nvme1\x00ACTION=add\x00SUBSYSTEM=nvme\x00"))
	assert.True(t, ok)
	assert.True(t, e.Hardware([]string{"tcp"}))
	assert.False(t, e.Hardware([]string{"pcie"}))
	assert.False(t, e.Hardware(nil))
}

func FuzzParseUevent(f *testing.F) {
	f.Add([]byte("add@/devices/pci0000:00\x00ACTION=add\x00SUBSYSTEM=pci\x00"))
	f.Add([]byte("@\x00=\x00"))
	f.Fuzz(func(t *testing.T, message []byte) {
		if e, ok := hotplug.ParseUevent(message); ok && (e.Action == "" || e.Path == "") {
			t.Fatalf("incomplete event %+v", e)
		}
	})
}

func TestManyEventsAreOneReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		events, reports := make(chan struct{}), 0
		done := make(chan struct{})
		start := time.Now()
		var at []time.Duration
		go func() {
			defer close(done)
			hotplug.Debounce(ctx, events, 3*time.Second, 30*time.Second, func() { reports++; at = append(at, time.Since(start)) })
		}()
		for range 10 {
			events <- struct{}{}
			time.Sleep(time.Second)
		}
		time.Sleep(5 * time.Second)
		events <- struct{}{}
		time.Sleep(time.Minute)
		cancel()
		<-done
		assert.Equal(t, 2, reports)
		assert.Equal(t, 12*time.Second, at[0], "three seconds after the last of the first events")
		assert.Equal(t, 42*time.Second, at[1], "not before thirty seconds after the first report")
	})
}

func TestEventsWithoutEndAreReportedAllTheSame(t *testing.T) { // R001-2
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		events, done := make(chan struct{}), make(chan struct{})
		start := time.Now()
		var at []time.Duration
		go func() {
			defer close(done)
			hotplug.Debounce(ctx, events, 3*time.Second, 30*time.Second, func() { at = append(at, time.Since(start)) })
		}()
		for range 100 {
			events <- struct{}{}
			time.Sleep(700 * time.Millisecond)
		}
		cancel()
		<-done
		assert.Equal(t, []time.Duration{30 * time.Second, 60*time.Second + 100*time.Millisecond}, at, "ten quiet times after the first event")
	})
}

func TestWatchEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	hotplug.Watch(ctx, logr.Discard(), nil, func() { t.Error("nothing happened") })
}
