package host

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/bench"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
)

// Rules select by these names: a newer database must not change one without being noticed.
func TestVendorNamesStayTheSame(t *testing.T) {
	want := map[pciID]string{
		{"025e", ""}: "Solidigm", {"1000", ""}: "Broadcom / LSI", {"1022", ""}: "Advanced Micro Devices, Inc. [AMD]",
		{"1077", ""}: "QLogic Corp.", {"10df", ""}: "Emulex Corporation", {"10ec", ""}: "Realtek Semiconductor Co., Ltd.",
		{"1179", ""}: "Toshiba Corporation", {"1344", ""}: "Micron Technology Inc", {"1414", ""}: "Microsoft Corporation",
		{"1425", ""}: "Chelsio Communications Inc", {"144d", ""}: "Samsung Electronics Co Ltd",
		{"14e4", ""}: "Broadcom Inc. and subsidiaries", {"15ad", ""}: "VMware", {"15b3", ""}: "Mellanox Technologies",
		{"15b7", ""}: "Sandisk Corp", {"1924", ""}: "AMD Solarflare", {"1987", ""}: "Phison Electronics Corporation",
		{"19e5", ""}: "Huawei Technologies Co., Ltd.", {"1ae0", ""}: "Google, Inc.", {"1af4", ""}: "Red Hat, Inc.",
		{"1b36", ""}: "Red Hat, Inc.", {"1b96", ""}: "Western Digital", {"1bb1", ""}: "Seagate Technology PLC",
		{"1c5c", ""}: "SK hynix", {"1d0f", ""}: "Amazon.com, Inc.", {"1dd8", ""}: "AMD Pensando Systems",
		{"1e0f", ""}: "KIOXIA Corporation", {"8086", ""}: "Intel Corporation", {"9005", ""}: "Adaptec",
		{"15b3", "101d"}: "MT2892 Family [ConnectX-6 Dx]", {"ffff", ""}: "", {"15b3", "ffff"}: "",
	}
	assert.Equal(t, want, namesOf(t, want))
}

func TestNamesIgnoreEnvironment(t *testing.T) {
	t.Setenv("PCIDB_PATH", "/dev/null")
	t.Setenv("PCIDB_CHROOT", t.TempDir())
	want := map[pciID]string{{"8086", "1572"}: "Ethernet Controller X710 for 10GbE SFP+", {"8086", ""}: "Intel Corporation"}
	assert.Equal(t, want, namesOf(t, want))
}

// namesOf looks the ids up as a host does.
func namesOf(t *testing.T, ids map[pciID]string) map[pciID]string {
	h := &Host{names: map[pciID]string{}}
	var functions []sysfs.PCIFunction
	for id := range maps.Keys(ids) {
		functions = append(functions, sysfs.PCIFunction{Vendor: id.vendor, Device: id.device})
	}
	h.learnNames(functions)
	got := map[pciID]string{}
	for id := range ids {
		got[id] = h.nameOf(id.vendor, id.device)
	}
	return got
}

// TestBenchmarks: each benchmark runs.
func TestBenchmarks(t *testing.T) { bench.Once(t) }

func BenchmarkNames(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		_, err := parsePCIIDs([]pciID{{"15b3", "101d"}, {"8086", "1572"}, {"144d", "a80a"}, {"1000", "00ac"}})
		require.NoError(b, err)
	}
}
