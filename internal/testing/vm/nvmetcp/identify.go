package nvmetcp

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest/nvmectrl"
)

// Kinds of data of Identify (CNS).
const (
	identifyNamespace   = 0x00
	identifyController  = 0x01
	identifyActive      = 0x02
	identifyDescriptors = 0x03
)

const (
	identifySize  = 4096
	namespaceID   = 1
	allNamespaces = 0xffffffff
)

// identify is the Identify command.
func (c *controller) identify(t *task) completion {
	namespace := t.namespace()
	switch uint8(t.dword(10)) {
	case identifyController:
		return completion{data: c.describe()}
	case identifyNamespace:
		if namespace == 0 || namespace > namespaceID && namespace != allNamespaces {
			return failed(InvalidNamespace)
		}
		return completion{data: c.drive.describeNamespace()}
	case identifyActive:
		if namespace >= allNamespaces-1 {
			return failed(InvalidNamespace)
		}
		list := make([]byte, identifySize)
		if namespace < namespaceID {
			binary.LittleEndian.PutUint32(list, namespaceID)
		}
		return completion{data: list}
	case identifyDescriptors:
		if namespace != namespaceID {
			return failed(InvalidNamespace)
		}
		return completion{data: c.drive.namespaceDescriptors()}
	}
	return failed(nvmectrl.InvalidField)
}

// describe is the Identify data of the controller, by offset.
func (c *controller) describe() []byte {
	b := make([]byte, identifySize)
	le := binary.LittleEndian
	c.drive.snapshot().Identify(b)
	le.PutUint16(b[78:], c.id)
	le.PutUint32(b[80:], version14)
	le.PutUint32(b[92:], noticeActivation)
	le.PutUint32(b[96:], 1<<6) // any command restarts the keep-alive timer
	b[111] = 1                 // an I/O controller
	b[258], b[259] = 3, eventRequestsMax-1
	b[261] = 1<<1 | 1<<2 // effects log; offsets into logs
	le.PutUint16(b[266:], nvmectrl.WarningTemperature)
	le.PutUint16(b[268:], nvmectrl.CriticalTemperature)
	le.PutUint16(b[320:], 10) // steps of keep alive: 1 s
	b[512], b[513] = 0x66, 0x44
	le.PutUint16(b[514:], queueMax)
	le.PutUint32(b[516:], namespaceID)
	b[525] = 1                     // a volatile write cache
	le.PutUint32(b[536:], 1|1<<20) // descriptors; data in capsules
	copy(b[768:1024], c.drive.config.NQN)
	le.PutUint32(b[1792:], (commandSize+capsuleData)/16)
	le.PutUint32(b[1796:], 1)
	b[1803] = 1                  // one descriptor a command
	le.PutUint16(b[2048:], 1000) // the one power state: 10 W
	return b
}

func (d *Drive) describeNamespace() []byte {
	b := make([]byte, identifySize)
	le := binary.LittleEndian
	blocks := uint64(d.config.NamespaceSize) >> blockShift
	le.PutUint64(b[0:], blocks)
	le.PutUint64(b[8:], blocks)
	le.PutUint64(b[16:], blocks)
	id := d.namespaceIDs()
	copy(b[104:], id[:16])
	copy(b[120:], id[16:24])
	b[130] = blockShift
	return b
}

// namespaceDescriptors are the globally unique ids of the namespace.
func (d *Drive) namespaceDescriptors() []byte {
	const kindEUI, kindNGUID = 1, 2
	b, id := make([]byte, identifySize), d.namespaceIDs()
	b[0], b[1] = kindEUI, 8
	copy(b[4:], id[16:24])
	b[12], b[13] = kindNGUID, 16
	copy(b[16:], id[:16])
	return b
}

// namespaceIDs are an NGUID of 16 bytes and an EUI-64, made of the serial number.
func (d *Drive) namespaceIDs() [24]byte {
	sum := sha256.Sum256([]byte(d.config.Serial))
	return [24]byte(sum[:24])
}
