package simhost

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// The cabinet format is [MS-CAB]; files are stored uncompressed in one folder.
const (
	cabMagic    = "MSCF"
	cabBlock    = 32 << 10
	cabHeader   = 36
	cabFolder   = 8
	cabFileHead = 16
)

var errCabinet = errors.New("parse cabinet: archive is corrupt")

type cabFile struct {
	name string
	data []byte
}

func buildCabinet(files []cabFile) []byte {
	le := binary.LittleEndian
	var entries, content bytes.Buffer
	for _, f := range files {
		var h []byte
		h = le.AppendUint32(h, uint32(len(f.data)))
		h = le.AppendUint32(h, uint32(content.Len()))
		h = le.AppendUint16(h, 0)      // folder
		h = le.AppendUint16(h, 0x5879) // date: 2024-03-25
		h = le.AppendUint16(h, 0)      // time
		h = le.AppendUint16(h, 0x20)   // attribute archive
		entries.Write(h)
		entries.WriteString(f.name + "\x00")
		content.Write(f.data)
	}
	var blocks bytes.Buffer
	count := 0
	for data := content.Bytes(); len(data) > 0; count++ {
		n := min(cabBlock, len(data))
		size := le.AppendUint16(le.AppendUint16(nil, uint16(n)), uint16(n))
		blocks.Write(le.AppendUint32(nil, cabChecksum(size, cabChecksum(data[:n], 0))))
		blocks.Write(size)
		blocks.Write(data[:n])
		data = data[n:]
	}
	firstFile := cabHeader + cabFolder
	firstBlock := firstFile + entries.Len()
	out := []byte(cabMagic)
	out = le.AppendUint32(out, 0)
	out = le.AppendUint32(out, uint32(firstBlock+blocks.Len()))
	out = le.AppendUint32(out, 0)
	out = le.AppendUint32(out, uint32(firstFile))
	out = le.AppendUint32(out, 0)
	out = append(out, 3, 1) // version 1.3
	for _, v := range []uint16{1, uint16(len(files)), 0, 0x6e66, 0} {
		out = le.AppendUint16(out, v)
	}
	out = le.AppendUint32(out, uint32(firstBlock))
	out = le.AppendUint16(out, uint16(count))
	out = le.AppendUint16(out, 0) // stored
	return append(append(out, entries.Bytes()...), blocks.Bytes()...)
}

func parseCabinet(data []byte) ([]cabFile, error) {
	le := binary.LittleEndian
	if len(data) < cabHeader+cabFolder || string(data[:4]) != cabMagic || int(le.Uint32(data[8:])) != len(data) {
		return nil, errCabinet
	}
	at, nFiles := int(le.Uint32(data[16:])), int(le.Uint16(data[28:]))
	block, nBlocks := int(le.Uint32(data[cabHeader:])), int(le.Uint16(data[cabHeader+4:]))
	var content []byte
	for range nBlocks {
		if block < 0 || block+8 > len(data) {
			return nil, errCabinet
		}
		want, n := le.Uint32(data[block:]), int(le.Uint16(data[block+4:]))
		if block+8+n > len(data) {
			return nil, errCabinet
		}
		body := data[block+8 : block+8+n]
		if got := cabChecksum(data[block+4:block+8], cabChecksum(body, 0)); got != want {
			return nil, fmt.Errorf("parse cabinet: invalid checksum at 0x%x, expected 0x%x, got 0x%x", block, want, got)
		}
		content = append(content, body...)
		block += 8 + n
	}
	files := make([]cabFile, 0, nFiles)
	for range nFiles {
		if at < 0 || at+cabFileHead > len(data) {
			return nil, errCabinet
		}
		size, offset := int(le.Uint32(data[at:])), int(le.Uint32(data[at+4:]))
		end := bytes.IndexByte(data[at+cabFileHead:], 0)
		if end < 0 || offset+size > len(content) {
			return nil, errCabinet
		}
		files = append(files, cabFile{string(data[at+cabFileHead : at+cabFileHead+end]), content[offset : offset+size]})
		at += cabFileHead + end + 1
	}
	return files, nil
}

// cabChecksum is the checksum of a CFDATA block: the exclusive or of its little-endian words; a rest is big-endian.
func cabChecksum(data []byte, seed uint32) uint32 {
	for ; len(data) >= 4; data = data[4:] {
		seed ^= binary.LittleEndian.Uint32(data)
	}
	var rest uint32
	for _, b := range data {
		rest = rest<<8 | uint32(b)
	}
	return seed ^ rest
}

func metainfo(kind ImageKind, o ImageOptions, payload []byte) []byte {
	protocol, format := "org.uefi.capsule", "triplet"
	if kind == ATAImage {
		protocol, format = "org.t13.ata", "plain"
	}
	return fmt.Appendf(nil, `<?xml version="1.0" encoding="UTF-8"?>
<component type="firmware">
  <id>com.example.simulated.firmware</id>
  <name>System Firmware</name>
  <summary>Firmware of a simulated machine</summary>
  <provides>
    <firmware type="flashed">%s</firmware>
  </provides>
  <releases>
    <release urgency="high" version="%s" date="2026-01-15">
      <checksum filename="firmware.bin" target="content" type="sha256">%x</checksum>
    </release>
  </releases>
  <requires>
    <id compare="ge" version="1.8.12">org.freedesktop.fwupd</id>
  </requires>
  <custom>
    <value key="LVFS::UpdateProtocol">%s</value>
    <value key="LVFS::VersionFormat">%s</value>
  </custom>
</component>
`, o.GUID, o.Version, sum(payload), protocol, format)
}
