package hotplug_test

import (
	"context"
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
		"add@/devices/virtual/nvme-fabrics/ctl/nvme1\x00ACTION=add\x00SUBSYSTEM=nvme\x00":           false,
		"change@/devices/pci0000:00/0000:00:01.0\x00ACTION=change\x00SUBSYSTEM=pci\x00":             false,
		"libudev\x00\xfe\xed\xca\xfe": false,
		"":                            false,
	} {
		e, ok := hotplug.ParseUevent([]byte(message))
		assert.Equal(t, want, ok && e.Hardware(), "%q", message)
	}
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
	hotplug.Watch(ctx, logr.Discard(), func() { t.Error("nothing happened") })
}
