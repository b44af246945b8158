package rootfs_test

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm/rootfs"
)

func TestLoadsModulesInNeededOrder(t *testing.T) {
	tree := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(tree, "kernel"), 0o755))
	for name, info := range map[string]string{
		"ext4": "license=GPL\x00depends=mbcache,jbd2,crc16\x00", "mbcache": "depends=\x00", "jbd2": "depends=crc32c-generic,crc16\x00",
		"crc32c-generic": "", "nvme-tcp": "depends=nvme_core\x00", "broken": "depends=absent\x00",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(tree, "kernel", name+".ko"), module(t, info), 0o600))
	}
	require.NoError(t, os.WriteFile(filepath.Join(tree, "modules.builtin"), []byte("kernel/lib/crc16.ko\n"), 0o600))
	m, err := rootfs.OpenModules(tree)
	require.NoError(t, err)
	built := filepath.Join(t.TempDir(), "nvme-core.ko")
	require.NoError(t, os.WriteFile(built, module(t, "depends=\x00"), 0o600))
	m.Add(built)

	order, err := m.Order("ext4", "nvme-tcp", "mbcache")
	require.NoError(t, err)
	var names []string
	for _, file := range order {
		names = append(names, filepath.Base(file))
	}
	assert.Equal(t, []string{"mbcache.ko", "crc32c-generic.ko", "jbd2.ko", "ext4.ko", "nvme-core.ko", "nvme-tcp.ko"}, names)
	_, err = m.Order("broken")
	require.ErrorContains(t, err, "absent")
	_, err = rootfs.OpenModules(t.TempDir())
	require.ErrorIs(t, err, os.ErrNotExist)
}

// module is the least of an ELF file that has a section .modinfo.
func module(t *testing.T, info string) []byte {
	t.Helper()
	const headerSize, sectionSize = 64, 64
	names := "\x00.modinfo\x00.shstrtab\x00"
	body := info + names
	var out bytes.Buffer
	header := elf.Header64{
		Type: uint16(elf.ET_REL), Machine: uint16(elf.EM_X86_64), Version: 1, Shoff: uint64(headerSize + len(body)),
		Ehsize: headerSize, Shentsize: sectionSize, Shnum: 3, Shstrndx: 2,
	}
	copy(header.Ident[:], "\x7fELF\x02\x01\x01")
	require.NoError(t, binary.Write(&out, binary.LittleEndian, header))
	out.WriteString(body)
	for _, s := range []elf.Section64{
		{},
		{Name: 1, Type: uint32(elf.SHT_PROGBITS), Off: headerSize, Size: uint64(len(info))},
		{Name: 10, Type: uint32(elf.SHT_STRTAB), Off: uint64(headerSize + len(info)), Size: uint64(len(names))},
	} {
		require.NoError(t, binary.Write(&out, binary.LittleEndian, s))
	}
	return out.Bytes()
}
