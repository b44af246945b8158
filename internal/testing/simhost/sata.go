package simhost

import (
	"crypto/sha1"
	"fmt"
	"strings"
)

// A SATA drive holds microcode as a SCSI disk does: the running one and a deferred one.
func newSATA(d SATA) *scsiState {
	f := flash{Version: d.Version, Digest: digest(BuildImage(ATAImage, ImageOptions{Version: d.Version, GUID: d.GUID()}))}
	return &scsiState{Running: f, SysfsRevision: d.Version}
}

// DeviceID is fwupd's id of the drive, the SHA-1 of where it is plugged in.
func (d SATA) DeviceID() string { return fmt.Sprintf("%x", sha1.Sum([]byte("ATA-"+d.Address))) }

// instanceID is the one of the model; all drives of a model have it.
func (d SATA) instanceID() string {
	name := strings.ReplaceAll(d.Model, " ", "_")
	return "IDE\\0" + name + strings.Repeat("_", max(0, 40-len(name)))
}

// GUID is the GUID of firmware for the model, derived from its instance id.
func (d SATA) GUID() string {
	h := sha1.Sum([]byte(d.instanceID()))
	h[6], h[8] = h[6]&0x0f|0x50, h[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", h[:4], h[4:6], h[6:8], h[8:10], h[10:16])
}

// identify is the answer to IDENTIFY DEVICE (ACS-4).
func (d SATA) identify(running string) []byte {
	out := make([]byte, 512)
	set := func(word int, v uint16) { out[2*word], out[2*word+1] = byte(v), byte(v>>8) }
	text := func(first, last int, s string) {
		padded := fmt.Sprintf("%-*s", 2*(last-first+1), s)
		for i := 0; i < 2*(last-first+1); i += 2 {
			out[2*first+i], out[2*first+i+1] = padded[i+1], padded[i]
		}
	}
	set(0, 0x0040)
	text(10, 19, d.Serial)
	text(23, 26, running)
	text(27, 46, d.Model)
	set(83, 0x7468)
	set(86, 0xb400)
	if !d.NoDownload {
		set(83, 0x7469)
		set(86, 0xb401)
	}
	for i := range 4 {
		set(108+i, hex16(d.WWN[4*i:4*i+4]))
	}
	set(255, 0x00a5)
	var sum byte
	for _, b := range out {
		sum += b
	}
	out[511] = -sum
	return out
}
