package sysfs_test

import (
	"fmt"
	"io/fs"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/bench"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs/sysfstest"
)

// TestBenchmarks: each benchmark runs.
func TestBenchmarks(t *testing.T) { bench.Once(t) }

// BenchmarkPCIFunctions compares ghw's enumeration with the files alone, on a bus with 300 functions, most of them bridges.
func BenchmarkPCIFunctions(b *testing.B) {
	m := sysfstest.NewMachine()
	for n := range 300 {
		class := "060400"
		if n%20 == 0 {
			class = "020000"
		}
		m.PCI(sysfstest.Function{Address: fmt.Sprintf("0000:%02x:%02x.0", n/32, n%32), Vendor: "15b3", Device: "101d", Class: class, Driver: "x"})
	}
	dir := b.TempDir()
	require.NoError(b, os.CopyFS(dir, m))
	for name, tree := range map[string]fs.FS{"ghw": sysfs.DirFS(dir), "files": os.DirFS(dir)} {
		b.Run(name, func(b *testing.B) {
			b.Setenv("PCIDB_PATH", os.DevNull)
			b.ReportAllocs()
			for b.Loop() {
				found, err := sysfs.PCIFunctions(tree, sysfs.PCINetwork)
				require.NoError(b, err)
				require.Len(b, found, 15)
			}
		})
	}
}
