package health_test

import (
	"context"
	"errors"
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nodefirmware/node-firmware-operator/internal/node/health"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

type host struct {
	devices  []inventory.Device
	err      error
	notReady string
}

func (h host) Scan(context.Context) ([]inventory.Device, error) { return h.devices, h.err }
func (h host) Ready(context.Context) (bool, string, error)      { return h.notReady == "", h.notReady, nil }

func nic(state inventory.LinkState, version inventory.Version) inventory.Device {
	return inventory.Device{
		Identity: inventory.Identity{Class: inventory.NIC, UniqueID: "nic"}, Firmware: &inventory.Firmware{Running: version},
		Ports: []inventory.Port{{MAC: "B8:CE:F6:00:00:01", State: state}},
	}
}

func TestCheckFindsWhatIsWorse(t *testing.T) {
	disk := inventory.Device{Identity: inventory.Identity{Class: inventory.Disk, UniqueID: "disk"}}
	broken := inventory.Device{Identity: inventory.Identity{Class: inventory.Disk, UniqueID: "broken"}, Err: errors.New("EIO")}
	stick := inventory.Device{Identity: inventory.Identity{Class: inventory.Disk, UniqueID: "stick", Transport: "usb"}}
	// A management controller shows the host a network card on USB, which may have another MAC after each boot.
	bmc := inventory.Device{Identity: inventory.Identity{Class: inventory.NIC, UniqueID: "bmc", Transport: "usb"}}
	before := health.Take([]inventory.Device{nic(inventory.LinkUp, "1"), disk, broken, stick, bmc})
	unreadable := disk
	unreadable.Err = errors.New("EIO")
	for name, c := range map[string]struct {
		now  []inventory.Device
		node string
		want []string
	}{
		"all is well":               {[]inventory.Device{nic(inventory.LinkUp, "2"), disk, broken}, "", nil},
		"what was broken may be":    {[]inventory.Device{nic(inventory.LinkUp, "2"), disk}, "", nil},
		"a stick was pulled out":    {[]inventory.Device{nic(inventory.LinkUp, "2"), disk}, "", nil},
		"a device is gone":          {[]inventory.Device{nic(inventory.LinkUp, "2")}, "", []string{"Disk  disk is gone"}},
		"a device is unreadable":    {[]inventory.Device{nic(inventory.LinkUp, "2"), unreadable}, "", []string{"Disk  disk can no longer be read: EIO"}},
		"a link is down":            {[]inventory.Device{nic(inventory.LinkDown, "2"), disk}, "", []string{"link b8:ce:f6:00:00:01 of NIC  nic is no longer up"}},
		"the target does not run":   {[]inventory.Device{nic(inventory.LinkUp, "1"), disk}, "", []string{"n runs 1 instead of 2"}},
		"the node is not Ready yet": {[]inventory.Device{nic(inventory.LinkUp, "2"), disk}, "booting", []string{"the node is not Ready: booting"}},
	} {
		t.Run(name, func(t *testing.T) {
			h := host{devices: c.now, notReady: c.node}
			got, err := health.Checker{Scanner: h, Node: h}.Check(t.Context(), before, []health.Target{{Device: "n", UniqueID: "nic", Version: "2"}})
			require.NoError(t, err)
			var messages []string
			for _, complaint := range got {
				messages = append(messages, complaint.Message)
			}
			assert.Equal(t, c.want, messages)
		})
	}
}

// TestSilentTargetIsUnhealthy proves R002-17.
func TestSilentTargetIsUnhealthy(t *testing.T) {
	target := health.Target{Device: "n", UniqueID: "nic", Version: "2"}
	mute, dead := nic(inventory.LinkUp, "2"), nic(inventory.LinkUp, "2")
	mute.Firmware, dead.Err = nil, errors.New("EIO")
	for name, c := range map[string]struct {
		baseline, now []inventory.Device
		want          string
		kind          step.SubjectKind
	}{
		"it is gone":                       {nil, nil, "n is gone", step.DeviceSubject},
		"it is gone, as the baseline says": {[]inventory.Device{mute}, nil, "NIC  nic is gone", step.DeviceSubject},
		"it cannot be read":                {nil, []inventory.Device{dead}, "n cannot be read: EIO", step.DeviceSubject},
		"it is mute":                       {nil, []inventory.Device{mute}, "n does not report that it runs 2", step.VersionSubject},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := health.Checker{Scanner: host{devices: c.now}}.Check(t.Context(), health.Take(c.baseline), []health.Target{target})
			require.NoError(t, err)
			require.Len(t, got, 1)
			assert.Equal(t, "nic", got[0].UniqueID)
			assert.Equal(t, c.want, got[0].Message)
			assert.Equal(t, step.Subject{Kind: c.kind, Of: "nic"}, got[0].Subject)
		})
	}
}

func TestUnscannableHostIsUnhealthy(t *testing.T) {
	_, err := health.Checker{Scanner: host{err: errors.New("EIO")}}.Check(t.Context(), health.Baseline{}, nil)
	require.Error(t, err)
}

// unsaid is an API server that does not say how the Node is.
type unsaid struct{ err error }

func (u unsaid) Ready(context.Context) (bool, string, error) { return false, "", u.err }

// Whatever the API server answers but the Node is no answer: what the host misses is reported beside it.
func TestErrorsAreNoAnswer(t *testing.T) {
	for name, err := range map[string]error{
		"no route":        &net.OpError{Op: "dial", Net: "tcp", Err: syscall.EHOSTUNREACH},
		"no answer":       context.DeadlineExceeded,
		"no quorum":       apierrors.NewInternalError(errors.New("etcdserver: request timed out")),
		"no backend":      apierrors.NewServiceUnavailable("the server is starting"),
		"too many":        apierrors.NewTooManyRequestsError("wait"),
		"no such node":    apierrors.NewNotFound(schema.GroupResource{Resource: "nodes"}, "n1"),
		"no permission":   apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "n1", nil),
		"not its program": errors.New("unexpected EOF"),
	} {
		t.Run(name, func(t *testing.T) {
			before := health.Take([]inventory.Device{nic(inventory.LinkUp, "2")})
			c := health.Checker{Scanner: host{devices: []inventory.Device{nic(inventory.LinkDown, "2")}}, Node: unsaid{err}}
			got, failed := c.Check(t.Context(), before, nil)
			require.ErrorIs(t, failed, health.ErrUnanswered)
			require.ErrorIs(t, failed, err)
			require.Len(t, got, 1)
			assert.Equal(t, step.LinkSubject, got[0].Subject.Kind)
			wrong, failed := c.Before(t.Context())
			require.NoError(t, failed)
			assert.Empty(t, wrong, "a job does not wait for it")
		})
	}
	_, err := health.Checker{Scanner: host{}, Node: unsaid{health.ErrAnswered}}.Check(t.Context(), health.Baseline{}, nil)
	require.ErrorIs(t, err, health.ErrAnswered)
	require.NotErrorIs(t, err, health.ErrUnanswered)
}
