package drivertest_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/simhost"
	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/fwupd"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/mstflint"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/nvme"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/pci"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/scsi"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
)

// asPCITool makes the test binary the tool firmware-pci.
const asPCITool = "-as-" + pci.Tool

// The test binary is the vendor tools of the simulated machine when it is called by the name of one.
func TestMain(m *testing.M) {
	if simhost.IsTool(os.Args[0]) {
		os.Exit(simhost.RunTool(os.Args, os.Stdout, os.Stderr))
	}
	if len(os.Args) > 1 && os.Args[1] == asPCITool {
		os.Exit(pci.Main(context.Background(), os.Args[2:], os.Stdout, os.Stderr))
	}
	// A machine is hundreds of small files: keep them in memory where the system offers it.
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() && os.Getenv("TMPDIR") == "" {
		os.Setenv("TMPDIR", "/dev/shm")
	}
	os.Exit(m.Run())
}

// part is a part of the simulated machine and what is needed to drive it.
type part struct {
	key string
	// only takes everything else out of the machine.
	only      func(*simhost.Spec)
	driver    func(command.Runner, *simhost.Machine) driver.Driver
	id        func(simhost.Spec) inventory.Identity
	kind      simhost.ImageKind
	options   func(simhost.Spec) simhost.ImageOptions
	foreign   simhost.ImageOptions
	versions  [2]inventory.Version
	running   func(simhost.Spec) string
	write     string
	describes bool
	settings  func(*simhost.Machine) *drivertest.Settings
}

func nic(n int) part {
	return part{
		key:    []string{"nic0", "nic1"}[n],
		only:   func(s *simhost.Spec) { s.NICs, s.NVMe, s.SCSI = s.NICs[n:n+1], nil, nil },
		driver: func(r command.Runner, m *simhost.Machine) driver.Driver { return mstflint.New(r, sysfs.DirFS(m.Dir())) },
		id: func(s simhost.Spec) inventory.Identity {
			id := inventory.Identity{Class: inventory.NIC, VendorID: "15b3", DeviceID: s.NICs[0].DeviceID, Kernel: "mlx5_core"}
			for port := range s.NICs[0].Ports {
				first, err := inventory.ParsePCIAddress(s.NICs[0].Slot + ".0")
				if err != nil {
					panic(err)
				}
				first.Function = uint16(port)
				id.PCI = append(id.PCI, first)
			}
			return id
		},
		kind:      simhost.NICImage,
		options:   func(s simhost.Spec) simhost.ImageOptions { return simhost.ImageOptions{PSID: s.NICs[0].PSID} },
		foreign:   simhost.ImageOptions{PSID: "MT_0000000001"},
		versions:  [2]inventory.Version{"30.41.1000", "30.40.1000"},
		running:   func(s simhost.Spec) string { return s.NICs[0].Version },
		write:     "write",
		describes: true,
		settings:  nicSettings,
	}
}

func drive(n int) part {
	return part{
		key:    []string{"nvme0", "nvme1"}[n],
		only:   func(s *simhost.Spec) { s.NICs, s.NVMe, s.SCSI = nil, s.NVMe[n:n+1], nil },
		driver: func(r command.Runner, _ *simhost.Machine) driver.Driver { return nvme.New(r) },
		id: func(s simhost.Spec) inventory.Identity {
			d := s.NVMe[0]
			return inventory.Identity{Class: inventory.Disk, UniqueID: "eui." + d.EUI, Node: d.Key, Kernel: "nvme", Transport: "nvme"}
		},
		kind:     simhost.NVMeImage,
		options:  func(s simhost.Spec) simhost.ImageOptions { return simhost.ImageOptions{Model: s.NVMe[0].Model} },
		foreign:  simhost.ImageOptions{Model: "OTHER MODEL"},
		versions: [2]inventory.Version{"NEW00001", "NEW2"},
		running:  func(s simhost.Spec) string { return s.NVMe[0].Version },
		write:    "download",
	}
}

// change changes the part's machine too.
func (p part) change(change func(*simhost.Spec)) part {
	only := p.only
	p.only = func(s *simhost.Spec) {
		only(s)
		change(s)
	}
	return p
}

func disk() part {
	return part{
		key:    "sda",
		only:   func(s *simhost.Spec) { s.NICs, s.NVMe = nil, nil },
		driver: func(r command.Runner, _ *simhost.Machine) driver.Driver { return scsi.New(r) },
		id: func(s simhost.Spec) inventory.Identity {
			d := s.SCSI[0]
			return inventory.Identity{Class: inventory.Disk, UniqueID: "naa." + d.WWN, Node: d.Generic, Kernel: "sd", Transport: "sas"}
		},
		kind:     simhost.SCSIImage,
		options:  func(s simhost.Spec) simhost.ImageOptions { return simhost.ImageOptions{Model: s.SCSI[0].Model} },
		foreign:  simhost.ImageOptions{Model: "OTHER MODEL"},
		versions: [2]inventory.Version{"E005", "E006"},
		running:  func(s simhost.Spec) string { return s.SCSI[0].Version },
		write:    "write",
	}
}

func sata() part {
	return part{
		key: "sdb",
		only: func(s *simhost.Spec) {
			s.NICs, s.NVMe, s.SCSI, s.SATA = nil, nil, nil, []simhost.SATA{simhost.DefaultSATA(1)}
		},
		driver: func(r command.Runner, _ *simhost.Machine) driver.Driver { return fwupd.NewATA(r).WaitBy(inNoTime) },
		id: func(s simhost.Spec) inventory.Identity {
			d := s.SATA[0]
			return inventory.Identity{
				Class: inventory.Disk, UniqueID: "naa." + d.WWN, Vendor: "ATA", Model: d.Model[:16], SerialNumber: d.Serial,
				Node: d.Generic, Kernel: "sd", Transport: "sata",
			}
		},
		kind:      simhost.ATAImage,
		options:   func(s simhost.Spec) simhost.ImageOptions { return simhost.ImageOptions{GUID: s.SATA[0].GUID()} },
		foreign:   simhost.ImageOptions{GUID: "00000000-1111-2222-3333-444444444444"},
		versions:  [2]inventory.Version{"D4MU002", "D4MU003"},
		running:   func(s simhost.Spec) string { return s.SATA[0].Version },
		write:     "write",
		describes: true,
	}
}

// inNoTime lets a driver repeat its calls at once: what it waits for may be a write that hangs until the test ends it.
func inNoTime(ctx context.Context, _ time.Duration) error { return ctx.Err() }

func bios() part {
	return part{
		key:  simhost.BIOSKey,
		only: func(s *simhost.Spec) { s.NICs, s.NVMe, s.SCSI = nil, nil, nil },
		driver: func(r command.Runner, m *simhost.Machine) driver.Driver {
			return fwupd.New(r, sysfs.DirFS(m.Dir())).Keep(filepath.Join(m.Dir(), "var/lib/node-firmware")).WaitBy(inNoTime)
		},
		id: func(s simhost.Spec) inventory.Identity {
			return inventory.Identity{Class: inventory.BIOS, UniqueID: s.System.UUID, Vendor: s.BIOS.Vendor}
		},
		kind:      simhost.BIOSImage,
		options:   func(s simhost.Spec) simhost.ImageOptions { return simhost.ImageOptions{GUID: s.BIOS.GUID} },
		foreign:   simhost.ImageOptions{GUID: "00000000-1111-2222-3333-444444444444"},
		versions:  [2]inventory.Version{"2.19.1", "2.9.3"},
		running:   func(s simhost.Spec) string { return s.BIOS.Version },
		write:     "write",
		describes: true,
	}
}

func TestMstflintConforms(t *testing.T) {
	t.Run("card that resets", func(t *testing.T) { drivertest.Run(t, nic(0).harness) })
	t.Run("card that needs a reboot", func(t *testing.T) { drivertest.Run(t, nic(1).harness) })
	secure := func(s *simhost.Spec) { s.NICs[0].Secure = true }
	patch := func(s *simhost.Spec) { s.NICs[0].LivePatch = true }
	t.Run("secure card that resets", func(t *testing.T) { drivertest.Run(t, nic(0).change(secure).harness) })
	t.Run("secure card that needs a reboot", func(t *testing.T) { drivertest.Run(t, nic(1).change(secure).harness) })
	t.Run("card that is patched while it runs", func(t *testing.T) { drivertest.Run(t, nic(0).change(patch).harness) })
}

// A card keeps what it runs until another image has run, and nothing is written to take back what was only burned.
func TestCardTakesBackUnrunImage(t *testing.T) {
	for name, secure := range map[string]bool{"secure firmware": true, "other firmware": false} {
		t.Run(name, func(t *testing.T) {
			p := nic(1).change(func(s *simhost.Spec) { s.NICs[0].Secure = secure })
			m, runner := p.machine(t)
			spec, err := m.Spec()
			require.NoError(t, err)
			d, id := mstflint.New(runner, sysfs.DirFS(m.Dir())), p.id(spec)
			_, err = d.Write(t.Context(), id, drivertest.SaveImage(t, p.versions[0], p.bytes(p.options(spec), p.versions[0])), nil)
			require.NoError(t, err)
			before, err := m.Device(p.key)
			require.NoError(t, err)
			require.NotEqual(t, before.Running, before.Stored)

			need, err := d.Write(t.Context(), id, p.previous(t, spec), nil)
			require.NoError(t, err)
			assert.Equal(t, inventory.ActivateNone, need)
			require.NoError(t, m.Boot())
			after, err := m.Device(p.key)
			require.NoError(t, err)
			assert.Equal(t, before.Running, after.Running)
			assert.Equal(t, before.RunningDigest, after.StoredDigest, "it is the image that ran, not another one of its version")
			ops, err := m.Operations()
			require.NoError(t, err)
			done := map[string]int{}
			for _, op := range ops {
				if op.Device == p.key && op.Result == simhost.Done {
					done[op.Action]++
				}
			}
			assert.Equal(t, map[string]int{"Write": 1, "Reactivate": 1}, done)
		})
	}
}

func TestNVMeConforms(t *testing.T) {
	t.Run("drive that resets", func(t *testing.T) { drivertest.Run(t, drive(0).harness) })
	t.Run("drive that needs a reboot", func(t *testing.T) { drivertest.Run(t, drive(1).harness) })
	t.Run("drive with one slot", func(t *testing.T) {
		drivertest.Run(t, drive(0).change(func(s *simhost.Spec) { s.NVMe[0].Slots = 1 }).harness)
	})
	t.Run("drive that does not say what is staged", func(t *testing.T) {
		drivertest.Run(t, drive(0).change(func(s *simhost.Spec) { s.NVMe[0].HidesNext = true }).harness)
	})
}

func TestSCSIConforms(t *testing.T) {
	save := func(s *simhost.Spec) { s.SCSI[0].Modes = []int{7} }
	reboot := func(s *simhost.Spec) { s.SCSI[0].Activation = simhost.Reboot }
	t.Run("drive that defers and activates", func(t *testing.T) { drivertest.Run(t, disk().harness) })
	t.Run("drive that defers to a reboot", func(t *testing.T) { drivertest.Run(t, disk().change(reboot).harness) })
	t.Run("drive that activates what it saves", func(t *testing.T) { drivertest.Run(t, disk().change(save).harness) })
	t.Run("drive that saves for a reboot", func(t *testing.T) { drivertest.Run(t, disk().change(save).change(reboot).harness) })
	alone := func(s *simhost.Spec) {
		s.SCSI[0].NoServiceActions, s.SCSI[0].NoExtended, s.SCSI[0].NoDescriptor = true, true, true
	}
	t.Run("drive that says only that it takes microcode", func(t *testing.T) { drivertest.Run(t, disk().change(save).change(alone).harness) })
	lists := func(s *simhost.Spec) { s.SCSI[0].NoServiceActions, s.SCSI[0].ListsModes = true, true }
	t.Run("drive that lists its modes", func(t *testing.T) { drivertest.Run(t, disk().change(lists).harness) })
	selects := func(s *simhost.Spec) {
		s.SCSI[0].Modes, s.SCSI[0].Events, s.SCSI[0].Activation = []int{0xd}, 6, simhost.Reboot
	}
	t.Run("drive whose activation is selected", func(t *testing.T) { drivertest.Run(t, disk().change(selects).harness) })
	coarse := func(s *simhost.Spec) { s.SCSI[0].Boundary = 15 }
	t.Run("drive with large pieces", func(t *testing.T) { drivertest.Run(t, disk().change(coarse).harness) })
	small := func(s *simhost.Spec) { s.SCSI[0].Capacity = 2048 }
	t.Run("drive with a small buffer", func(t *testing.T) { drivertest.Run(t, disk().change(small).harness) })
}

func TestFwupdATAConforms(t *testing.T) {
	reboot := func(s *simhost.Spec) { s.SATA[0].Activation = simhost.Reboot }
	immediate := func(s *simhost.Spec) { s.SATA[0].Immediate = true }
	t.Run("drive with a separate activation", func(t *testing.T) { drivertest.Run(t, sata().harness) })
	t.Run("drive that needs a reboot", func(t *testing.T) { drivertest.Run(t, sata().change(reboot).harness) })
	t.Run("drive that activates what it downloads", func(t *testing.T) { drivertest.Run(t, sata().change(immediate).harness) })
}

// One fwupdtool sees all drives: what is written goes to the one it is for, by its serial number.
func TestWritesOnlyIntendedDrive(t *testing.T) {
	second := simhost.DefaultSATA(2)
	second.Key, second.Generic, second.Address = "sdc", "sg2", "2:0:0:0"
	p := sata().change(func(s *simhost.Spec) { s.SATA = append(s.SATA, second) })
	m, runner := p.machine(t)
	spec, err := m.Spec()
	require.NoError(t, err)
	d, id := fwupd.NewATA(runner), p.id(spec)
	img := drivertest.SaveImage(t, p.versions[0], p.bytes(p.options(spec), p.versions[0]))
	need, err := d.Write(t.Context(), id, img, nil)
	require.NoError(t, err)
	need, err = d.Activate(t.Context(), id, need)
	require.NoError(t, err)
	assert.Equal(t, inventory.ActivateNone, need)
	for key, want := range map[string]inventory.Version{"sdb": p.versions[0], "sdc": simhost.DefaultSATAVersion} {
		running, err := m.Running(key)
		require.NoError(t, err)
		assert.Equal(t, string(want), running, key)
	}
}

func TestSATADriveSaysWhyReadOnly(t *testing.T) {
	p := sata().change(func(s *simhost.Spec) { s.SATA[0].NoDownload = true })
	m, runner := p.machine(t)
	spec, err := m.Spec()
	require.NoError(t, err)
	d, id := fwupd.NewATA(runner), p.id(spec)
	img := drivertest.SaveImage(t, p.versions[0], p.bytes(p.options(spec), p.versions[0]))
	_, fw, err := d.Inspect(t.Context(), id)
	require.NoError(t, err)
	assert.Equal(t, inventory.Version(simhost.DefaultSATAVersion), fw.Running, "it is read all the same")
	assert.Contains(t, fw.ReadOnly, "takes no microcode")
	assert.Equal(t, inventory.RollbackNone, fw.Rollback)
	require.ErrorAs(t, d.Check(t.Context(), id, img), new(*driver.RejectedError))
	_, err = d.Write(t.Context(), id, img, nil)
	require.ErrorIs(t, err, driver.ErrNotSupported)
}

func TestFwupdConforms(t *testing.T) {
	t.Run("firmware that goes back", func(t *testing.T) { drivertest.Run(t, bios().harness) })
	t.Run("firmware that does not", func(t *testing.T) {
		p := bios().change(func(s *simhost.Spec) { s.BIOS.LowestVersion = "2.11.0" })
		p.versions[1] = "2.18.0"
		drivertest.Run(t, p.harness)
	})
}

// "Booted fine, old version" is how a refused capsule looks; only the ESRT knows better.
func TestRefusedCapsuleSaysWhy(t *testing.T) {
	p := bios()
	m, runner := p.machine(t)
	spec, err := m.Spec()
	require.NoError(t, err)
	d, id := p.driver(runner, m), p.id(spec)
	img := drivertest.SaveImage(t, p.versions[0], p.bytes(p.options(spec), p.versions[0]))
	require.NoError(t, m.SetFault(simhost.Fault{Kind: simhost.Fail, Device: p.key, Operation: "boot", ExitCode: 5}))
	_, err = d.Write(t.Context(), id, img, nil)
	require.NoError(t, err)
	require.NoError(t, m.Boot())
	_, fw, err := d.Inspect(t.Context(), id)
	require.NoError(t, err)
	assert.Equal(t, inventory.Version(simhost.DefaultBIOSVersion), fw.Running)
	assert.False(t, fw.Pending())
	assert.Contains(t, fw.LastAttempt, "authentication failed")
}

// A BIOS that runs the new version and says that its update failed is distinguished from one whose update succeeded.
func TestABIOSThatRunsWhatItReportsAsFailedSaysSo(t *testing.T) {
	p := bios()
	m, runner := p.machine(t)
	spec, err := m.Spec()
	require.NoError(t, err)
	d, id := p.driver(runner, m), p.id(spec)
	require.NoError(t, m.SetFault(simhost.Fault{Kind: simhost.FailAfterSuccess, Device: p.key, Operation: "boot", ExitCode: 1}))
	_, err = d.Write(t.Context(), id, drivertest.SaveImage(t, p.versions[0], p.bytes(p.options(spec), p.versions[0])), nil)
	require.NoError(t, err)
	require.NoError(t, m.Boot())
	_, fw, err := d.Inspect(t.Context(), id)
	require.NoError(t, err)
	assert.Equal(t, p.versions[0], fw.Running)
	assert.Contains(t, fw.LastAttempt, "unsuccessful")
}

// A machine that cannot take a capsule is read, says why, and keeps its firmware: the driver does not try, and what it could not know the
// tool refuses.
func TestCapsulelessBIOSIsReadOnly(t *testing.T) {
	other := simhost.ESP{Path: "/efi", Number: "8:17", ID: "11111111-2222-3333-4444-555555555555"}
	for name, c := range map[string]struct {
		change   func(*simhost.Spec)
		reason   fwupd.Reason
		toolSays string
	}{
		"a firmware without capsules":          {func(s *simhost.Spec) { s.BIOS.NoCapsules = true }, fwupd.NoCapsules, ""},
		"no partition":                         {func(s *simhost.Spec) { s.ESPs = nil }, fwupd.NoPartition, ""},
		"a read-only partition":                {func(s *simhost.Spec) { s.ESPs[0].ReadOnly = true }, fwupd.PartitionReadOnly, ""},
		"several, and the boot is unknown":     {func(s *simhost.Spec) { s.ESPs = append(s.ESPs, other); s.ESPs[0].ID = "" }, fwupd.SeveralPartitions, ""},
		"a partition that the tool finds full": {func(s *simhost.Spec) { s.ESPs[0].Full = true }, "", "does not have sufficient space"},
	} {
		t.Run(name, func(t *testing.T) {
			p := bios().change(c.change)
			m, runner := p.machine(t)
			spec, err := m.Spec()
			require.NoError(t, err)
			d, id := p.driver(runner, m), p.id(spec)
			_, fw, err := d.Inspect(t.Context(), id)
			require.NoError(t, err)
			assert.Equal(t, inventory.Version(simhost.DefaultBIOSVersion), fw.Running)
			img := drivertest.SaveImage(t, p.versions[0], p.bytes(p.options(spec), p.versions[0]))
			_, err = d.Write(t.Context(), id, img, nil)
			if c.reason == "" {
				assert.Empty(t, fw.ReadOnly)
				require.ErrorContains(t, err, c.toolSays)
				assert.NotErrorAs(t, err, new(*driver.RejectedError), "the archive is not to blame")
			} else {
				assert.Contains(t, fw.ReadOnly, string(c.reason)+": ")
				require.ErrorContains(t, err, string(c.reason)+": ")
				ops, err := m.Operations()
				require.NoError(t, err)
				assert.False(t, slices.ContainsFunc(ops, func(op simhost.Operation) bool { return op.Device == p.key }), "no tool was asked")
			}
			require.NoError(t, m.Boot())
			after, err := m.Device(p.key)
			require.NoError(t, err)
			assert.Equal(t, simhost.DefaultBIOSVersion, after.Running)
		})
	}
}

// Of several partitions the firmware looks at the one that it booted from, under the kernel's lockdown too.
func TestACapsuleIsLeftOnThePartitionThatWasBootedFrom(t *testing.T) {
	p := bios().change(func(s *simhost.Spec) {
		s.SecureBoot, s.Lockdown = true, "confidentiality"
		s.ESPs[0].Path = "/efi"
		s.ESPs = append(s.ESPs, simhost.ESP{Path: "/boot/efi", Number: "8:17", ID: "11111111-2222-3333-4444-555555555555"})
	})
	m, runner := p.machine(t)
	spec, err := m.Spec()
	require.NoError(t, err)
	d, id := p.driver(runner, m), p.id(spec)
	_, err = d.Write(t.Context(), id, drivertest.SaveImage(t, p.versions[0], p.bytes(p.options(spec), p.versions[0])), nil)
	require.NoError(t, err)
	require.NoError(t, m.Boot())
	_, fw, err := d.Inspect(t.Context(), id)
	require.NoError(t, err)
	assert.Equal(t, p.versions[0], fw.Running)
	assert.Empty(t, fw.ReadOnly)
}

func TestBIOSProblemPreventsWrite(t *testing.T) {
	p := bios().change(func(s *simhost.Spec) { s.BIOS.Problems = []string{"system-inhibit"} })
	m, runner := p.machine(t)
	spec, err := m.Spec()
	require.NoError(t, err)
	d, id := p.driver(runner, m), p.id(spec)
	img := drivertest.SaveImage(t, p.versions[0], p.bytes(p.options(spec), p.versions[0]))
	err = d.Check(t.Context(), id, img)
	require.ErrorContains(t, err, "another program inhibits")
	assert.NotErrorAs(t, err, new(*driver.RejectedError), "it passes")
	_, err = d.Write(t.Context(), id, img, nil)
	require.ErrorContains(t, err, "another program inhibits")
	ops, err := m.Operations()
	require.NoError(t, err)
	assert.False(t, slices.ContainsFunc(ops, func(op simhost.Operation) bool { return op.Device == p.key }), ops)
}

// The kernel keeps showing the revision it read when it probed the drive.
func TestReadsDriveItselfNotSysfs(t *testing.T) {
	p := drive(0)
	m, runner := p.machine(t)
	spec, err := m.Spec()
	require.NoError(t, err)
	d, id := p.driver(runner, m), p.id(spec)
	_, err = d.Write(t.Context(), id, drivertest.SaveImage(t, p.versions[0], p.bytes(p.options(spec), p.versions[0])), nil)
	require.NoError(t, err)
	need, err := d.Activate(t.Context(), id, inventory.ActivateDeviceReset)
	require.NoError(t, err)
	require.Equal(t, inventory.ActivateNone, need)
	_, fw, err := d.Inspect(t.Context(), id)
	require.NoError(t, err)
	assert.Equal(t, p.versions[0], fw.Running)
	shown, err := os.ReadFile(filepath.Join(m.Dir(), "sys/class/nvme/nvme0/firmware_rev"))
	require.NoError(t, err)
	assert.NotEqual(t, string(p.versions[0]), strings.TrimSpace(string(shown)))
}

// The image is fine by every check there is, and the card works with what was read out of it before.
// It proves R002-2.
func TestACardWhoseNewFirmwareHasNoLinksIsBroughtBack(t *testing.T) {
	p := nic(0)
	m, runner := p.machine(t)
	spec, err := m.Spec()
	require.NoError(t, err)
	d, id := mstflint.New(runner, sysfs.DirFS(m.Dir())), p.id(spec)
	archived := filepath.Join(t.TempDir(), "image")
	require.NoError(t, d.Archive(t.Context(), id, archived))
	good, err := os.ReadFile(archived)
	require.NoError(t, err)
	bad := p.options(spec)
	bad.LinkDown = true
	before, err := m.Device(p.key)
	require.NoError(t, err)
	for _, step := range []struct {
		img   driver.Image
		links bool
	}{
		{drivertest.SaveImage(t, p.versions[0], p.bytes(bad, p.versions[0])), false},
		{drivertest.SaveImage(t, inventory.Version(spec.NICs[0].Version), good), true},
	} {
		require.NoError(t, d.Check(t.Context(), id, step.img))
		need, err := d.Write(t.Context(), id, step.img, nil)
		require.NoError(t, err)
		require.Equal(t, inventory.ActivateDeviceReset, need)
		_, err = d.Activate(t.Context(), id, need)
		require.NoError(t, err)
		now, err := m.Device(p.key)
		require.NoError(t, err)
		assert.Equal(t, string(step.img.Version), now.Running)
		assert.Equal(t, step.links, now.LinkUp)
	}
	after, err := m.Device(p.key)
	require.NoError(t, err)
	assert.Equal(t, before, after)
}

// A card whose firmware does not start reports nothing about itself: nothing may be written to it, and nothing erased, without a
// person (R002-43, R002-56).
func TestLeavesCardInFlashRecovery(t *testing.T) {
	p := nic(0)
	m, runner := p.machine(t)
	spec, err := m.Spec()
	require.NoError(t, err)
	d := mstflint.New(runner, sysfs.DirFS(m.Dir()))
	id, _, err := d.Inspect(t.Context(), p.id(spec))
	require.NoError(t, err)
	archived := filepath.Join(t.TempDir(), "image")
	require.NoError(t, d.Archive(t.Context(), id, archived))
	good, err := os.ReadFile(archived)
	require.NoError(t, err)
	bad := p.options(spec)
	bad.Recovery = true
	_, err = d.Write(t.Context(), id, drivertest.SaveImage(t, p.versions[0], p.bytes(bad, p.versions[0])), nil)
	require.NoError(t, err)
	require.NoError(t, m.Boot())
	writes, err := m.Operations()
	require.NoError(t, err)

	_, fw, err := d.Inspect(t.Context(), id)
	require.NoError(t, err)
	assert.NotEmpty(t, fw.ReadOnly)
	assert.Equal(t, inventory.RollbackNone, fw.Rollback)
	img := drivertest.SaveImage(t, inventory.Version(spec.NICs[0].Version), good)
	require.ErrorAs(t, d.Check(t.Context(), id, img), new(*driver.RejectedError))
	_, err = d.Write(t.Context(), id, img, nil)
	require.ErrorAs(t, err, new(*driver.RejectedError))
	after, err := m.Operations()
	require.NoError(t, err)
	assert.Len(t, after, len(writes), "nothing was sent to the card that changes it")
}

// A tool that says it read the image and lost half of it is not believed.
func TestRefusesTruncatedArchive(t *testing.T) {
	p := nic(0)
	m, runner := p.machine(t)
	spec, err := m.Spec()
	require.NoError(t, err)
	require.NoError(t, m.SetFault(simhost.Fault{Kind: simhost.Lie, Device: p.key, Operation: "read"}))
	path := filepath.Join(t.TempDir(), "image")
	require.Error(t, mstflint.New(runner, sysfs.DirFS(m.Dir())).Archive(t.Context(), p.id(spec), path))
	assert.NoFileExists(t, path)
}

func (p part) machine(t *testing.T) (*simhost.Machine, *command.ExecRunner) {
	t.Helper()
	spec := simhost.DefaultSpec("conformance", 1)
	p.only(&spec)
	spec.Uplink = "" // the adapter that led to the gateway may be out
	spec.WriteTime, spec.ResetTime = 20*time.Millisecond, 10*time.Millisecond
	m, err := simhost.Create(filepath.Join(t.TempDir(), "machine"), spec)
	require.NoError(t, err)
	self, err := os.Executable()
	require.NoError(t, err)
	require.NoError(t, m.InstallTools(self))
	runner, err := command.NewExecRunner(command.Config{Path: []string{m.ToolPath()}, StateDir: t.TempDir()})
	require.NoError(t, err)
	return m, runner
}

func (p part) harness(t *testing.T) drivertest.Harness {
	t.Parallel()
	m, runner := p.machine(t)
	spec, err := m.Spec()
	require.NoError(t, err)
	fault := func(f simhost.Fault) func(*testing.T) {
		return func(t *testing.T) { require.NoError(t, m.SetFault(f)) }
	}
	damaged := p.bytes(p.options(spec), p.versions[0])
	damaged = damaged[:len(damaged)-len(damaged)/2&^3]
	h := drivertest.Harness{
		Driver:         p.driver(runner, m),
		ID:             p.id(spec),
		Image:          drivertest.SaveImage(t, p.versions[0], p.bytes(p.options(spec), p.versions[0])),
		Other:          drivertest.SaveImage(t, p.versions[1], p.bytes(p.options(spec), p.versions[1])),
		Previous:       p.previous(t, spec),
		WrongBoard:     drivertest.SaveImage(t, p.versions[0], p.bytes(p.foreign, p.versions[0])),
		Damaged:        drivertest.SaveImage(t, p.versions[0], damaged),
		SelfDescribing: p.describes,
		Reboot:         func(t *testing.T) { require.NoError(t, m.Boot()) },
		Garbage:        fault(simhost.Fault{Kind: simhost.Garbage, Stdout: "Segmentation fault"}),
		Unreadable:     p.unreadable(m),
		FailWrite: func(t *testing.T, stderr string) {
			fault(simhost.Fault{Kind: simhost.Fail, Device: p.key, Operation: p.write, Stderr: stderr})(t)
		},
		LieWrite: func(t *testing.T) {
			for _, operation := range []string{"write", "download", "commit"} {
				fault(simhost.Fault{Kind: simhost.Lie, Device: p.key, Operation: operation})(t)
			}
		},
		HangWrite: p.hang(m),
		WriteRunning: func(t *testing.T, lock string) bool {
			running, err := runner.WriteRunning(lock)
			require.NoError(t, err)
			return running
		},
		FailErase: fault(simhost.Fault{Kind: simhost.Fail, Device: p.key, Operation: "erase"}),
		FailRead:  fault(simhost.Fault{Kind: simhost.FailAfterSuccess, Device: p.key, Operation: "read", Stderr: "-E- Failed to read image."}),
		Stored: func(t *testing.T) inventory.Version {
			d, err := m.Device(p.key)
			require.NoError(t, err)
			return inventory.Version(d.Stored)
		},
	}
	if p.settings != nil {
		h.Settings = p.settings(m)
	}
	return h
}

func (p part) previous(t *testing.T, spec simhost.Spec) driver.Image {
	t.Helper()
	v := inventory.Version(p.running(spec))
	return drivertest.SaveImage(t, v, p.bytes(p.options(spec), v))
}

func (p part) bytes(o simhost.ImageOptions, v inventory.Version) []byte {
	o.Version = string(v)
	return simhost.BuildImage(p.kind, o)
}

// unreadable unplugs a card or a drive; nobody unplugs a BIOS, but its tables can be missing.
func (p part) unreadable(m *simhost.Machine) func(*testing.T) {
	return func(t *testing.T) {
		if p.key == simhost.BIOSKey {
			require.NoError(t, os.RemoveAll(filepath.Join(m.Dir(), "sys/class/dmi")))
			require.NoError(t, os.RemoveAll(filepath.Join(m.Dir(), "sys/devices/virtual/dmi")))
			return
		}
		require.NoError(t, m.Unplug(p.key))
	}
}

func (p part) hang(m *simhost.Machine) func(*testing.T) (func() bool, func()) {
	const name = "hang"
	return func(t *testing.T) (started func() bool, release func()) {
		require.NoError(t, m.SetFault(simhost.Fault{ID: name, Kind: simhost.Hang, Device: p.key, Operation: p.write}))
		started = func() bool {
			faults, err := m.Faults()
			return err == nil && slices.ContainsFunc(faults, func(f simhost.Fault) bool { return f.ID == name && f.Matches > 0 })
		}
		return started, func() { require.NoError(t, m.ClearFault(name)) }
	}
}

// R003-43: what a SAS drive cannot do, or what is not this host's alone, is refused with the reason, and nothing is begun.
func TestSASDriveThatIsNotErased(t *testing.T) {
	for says, change := range map[string]func(*simhost.SCSI){
		"does not answer which commands it knows":   func(d *simhost.SCSI) { d.NoOpcodes = true },
		"gives no data before all of it is written": func(d *simhost.SCSI) { d.Sanitizes, d.WriteAfterErase = []int{2, 3}, 0xe0 },
		"overwriting others is no purge":            func(d *simhost.SCSI) { d.Sanitizes, d.Solid = []int{1}, true },
		"2 keys for persistent reservations":        func(d *simhost.SCSI) { d.Keys = 2 },
		"2 logical units":                           func(d *simhost.SCSI) { d.MoreUnits = 1 },
		"is a SATA drive behind a controller":       func(d *simhost.SCSI) { d.Vendor = "ATA" },
		"is an NVMe drive behind a controller":      func(d *simhost.SCSI) { d.Vendor = "NVMe" },
		"the drive offers no sanitize by":           func(d *simhost.SCSI) { d.Sanitizes = nil },
	} {
		t.Run(says, func(t *testing.T) {
			p := disk().change(func(s *simhost.Spec) { change(&s.SCSI[0]) })
			m, runner := p.machine(t)
			spec, err := m.Spec()
			require.NoError(t, err)
			id := p.id(spec)
			id.SerialNumber, id.Model = spec.SCSI[0].Serial, spec.SCSI[0].Model
			d := scsi.New(runner)
			e, err := d.Erasure(t.Context(), id)
			require.NoError(t, err)
			err = d.Erase(t.Context(), id, driver.EraseCrypto)
			require.ErrorAs(t, err, new(*driver.RejectedError))
			assert.Contains(t, e.Shared+e.Otherwise+err.Error(), says)
			assert.Equal(t, e.Shared != "", len(e.Methods) > 0)
			ops, err := m.Operations()
			require.NoError(t, err)
			assert.False(t, slices.ContainsFunc(ops, func(op simhost.Operation) bool { return op.Action == "Sanitize" }))
		})
	}
}
