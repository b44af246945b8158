package nvmetcp

import (
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest/nvmectrl"
)

// Asynchronous events: type notice, firmware activation starting, log page 3. A host enables it by a bit of a feature.
const (
	eventActivationStarts = 0x02 | 0x01<<8 | nvmectrl.SlotLog<<16
	noticeActivation      = 1 << 9
	eventRequestsMax      = 4
)

// admin executes a command of the admin queue.
func (c *controller) admin(q *queue, t *task) completion {
	switch t.opcode() {
	case opIdentify:
		return c.identify(t)
	case opGetLogPage:
		return c.logPage(t)
	case opSetFeatures:
		return c.setFeatures(t)
	case opGetFeatures:
		return c.getFeatures(t)
	case opKeepAlive:
		return completion{}
	case opEventRequest:
		return c.awaitEvent(t)
	case opAbort:
		if t.dword(10)&0xffff == 0 && q.abort(uint16(t.dword(10)>>16)) {
			return completion{}
		}
		return completion{result: 1}
	case opFirmwareDownload:
		return c.drive.downloadPiece(t)
	case opFirmwareCommit:
		return c.drive.commit(c, t)
	}
	return failed(nvmectrl.InvalidOpcode)
}

// awaitEvent is the Asynchronous Event Request command, which ends when there is an event.
func (c *controller) awaitEvent(t *task) completion {
	c.mu.Lock()
	if c.eventRequests >= eventRequestsMax {
		c.mu.Unlock()
		return failed(TooManyEventRequests)
	}
	c.eventRequests++
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.eventRequests--
	}()
	t.state.Store(taskWaits)
	select {
	case event := <-c.events:
		if s := t.resume(); s != nvmectrl.Success {
			return failed(s)
		}
		return completion{result: uint64(event)}
	case <-t.context.Done():
		return failed(AbortRequested)
	}
}

// Features.
const (
	featureArbitration = 0x01
	featurePower       = 0x02
	featureTemperature = 0x04
	featureRecovery    = 0x05
	featureCache       = 0x06
	featureQueues      = 0x07
	featureAtomicity   = 0x0a
	featureEvents      = 0x0b
	featureKeepAlive   = 0x0f
	featureHostID      = 0x81
)

// setFeatures is the Set Features command. No feature survives a reset.
func (c *controller) setFeatures(t *task) completion {
	feature, value := uint8(t.dword(10)), t.dword(11)
	if t.dword(10)>>31 != 0 {
		return failed(FeatureNotSaveable)
	}
	switch feature {
	case featureQueues:
		if value&0xffff == 0xffff || value>>16 == 0xffff {
			return failed(nvmectrl.InvalidField)
		}
		return completion{result: queueCounts}
	case featureKeepAlive:
		c.setKeepAlive(time.Duration(value) * time.Millisecond)
		return completion{}
	case featureHostID:
		// On a fabric the host identifies itself when it connects.
		return failed(CommandSequenceError)
	case featureArbitration, featurePower, featureTemperature, featureRecovery, featureCache, featureAtomicity, featureEvents:
		c.mu.Lock()
		defer c.mu.Unlock()
		c.features[feature] = value
		return completion{}
	}
	return failed(nvmectrl.InvalidField)
}

// queueCounts are the numbers of I/O submission and completion queues, minus one each.
const queueCounts = (ioQueues - 1) | (ioQueues-1)<<16

// getFeatures is the Get Features command.
func (c *controller) getFeatures(t *task) completion {
	feature := uint8(t.dword(10))
	c.mu.Lock()
	defer c.mu.Unlock()
	switch feature {
	case featureQueues:
		return completion{result: queueCounts}
	case featureKeepAlive:
		return completion{result: uint64(c.keepAlive / time.Millisecond)}
	case featureHostID:
		return completion{data: c.host.id[:]}
	case featureTemperature:
		if _, set := c.features[feature]; !set {
			return completion{result: nvmectrl.WarningTemperature}
		}
		return completion{result: uint64(c.features[feature] & 0xffff)}
	case featureCache:
		if _, set := c.features[feature]; !set {
			return completion{result: 1}
		}
		return completion{result: uint64(c.features[feature])}
	case featureArbitration, featurePower, featureRecovery, featureAtomicity, featureEvents:
		return completion{result: uint64(c.features[feature])}
	}
	return failed(nvmectrl.InvalidField)
}

// Log pages that the model does not have.
const (
	logErrors  = 0x01
	logEffects = 0x05
)

// logPage is the Get Log Page command.
func (c *controller) logPage(t *task) completion {
	var page []byte
	switch uint8(t.dword(10)) {
	case logErrors:
		page = make([]byte, 64)
	case logEffects:
		page = effectsLog()
	default:
		if page = c.drive.snapshot().Log(uint8(t.dword(10))); page == nil {
			return failed(nvmectrl.InvalidLogPage)
		}
	}
	length := 4*(uint64(t.dword(10)>>16)|uint64(t.dword(11)&0xffff)<<16) + 4
	offset := t.long(48)
	switch {
	case length != uint64(t.dataLength()):
		return failed(DataLengthInvalid)
	case offset%4 != 0 || offset > uint64(len(page)):
		return failed(nvmectrl.InvalidField)
	}
	// Bytes beyond the end of a page are zeroes.
	out := make([]byte, length)
	copy(out, page[offset:])
	return completion{data: out}
}

// effectsLog lists the supported commands. None has an effect that hosts have to prepare for.
func effectsLog() []byte {
	b := make([]byte, 4096)
	for _, opcode := range []int{
		opGetLogPage, opIdentify, opAbort, opSetFeatures, opGetFeatures, opEventRequest, opFirmwareCommit, opFirmwareDownload,
		opKeepAlive,
	} {
		b[4*opcode] = 1
	}
	for _, opcode := range []int{opFlush, opWrite, opRead} {
		b[1024+4*opcode] = 1
	}
	return b
}
