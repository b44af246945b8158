package nvme

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/nvme/admin"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

func golden(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	return string(b)
}

func TestParseController(t *testing.T) {
	c, err := parseController([]byte(golden(t, "id-ctrl-2.3-samsung.json")))
	require.NoError(t, err)
	assert.Equal(t, controller{
		VendorID: 0x144d, Serial: "S64HNE0T000000", Model: "SAMSUNG MZQL23T8HCLS-00A07",
		Revision: "GDC5602Q", Downloadable: true, Slots: 3, FirstSlotReadOnly: true, MaxTransferKB: 2048,
		ActivatesNow: true, MaxPause: 13 * time.Second, Sanitize: []driver.EraseMethod{driver.EraseCrypto, driver.EraseBlock},
		Format: "it can be formatted with a cryptographic erase (nvme format --ses=2)",
	}, c)
	assert.Empty(t, c.readOnly())
}

func TestReadOnlyWithoutDownload(t *testing.T) {
	c, err := parseController([]byte(golden(t, "id-ctrl-2.3-qemu.json")))
	require.NoError(t, err)
	assert.Equal(t, inventory.Version("1.0"), c.Revision)
	assert.Contains(t, c.readOnly(), "OACS")
	assert.Contains(t, controller{Downloadable: true}.readOnly(), "no firmware slots")
	assert.Contains(t, controller{Downloadable: true, Slots: 1, FirstSlotReadOnly: true}.readOnly(), "only firmware slot")
}

func TestParseControllerRefusesWhatItDoesNotKnow(t *testing.T) {
	good := golden(t, "id-ctrl-2.3-samsung.json")
	for name, out := range map[string]string{
		"nothing":        "",
		"text":           "NVME Identify Controller:\n",
		"an empty reply": "{}",
		"no revision":    strings.Replace(good, `"fr":`, `"fx":`, 1),
		"a blank one":    strings.Replace(good, `"GDC5602Q"`, `"        "`, 1),
		"no oacs":        strings.Replace(good, `"oacs":`, `"ox":`, 1),
		"a second value": good + "{}",
		"too large":      strings.Replace(good, `"frmw":23`, `"frmw":300`, 1),
	} {
		t.Run(name, func(t *testing.T) {
			c, err := parseController([]byte(out))
			require.Error(t, err)
			assert.Zero(t, c)
		})
	}
}

func TestParseSlotLog(t *testing.T) {
	l, err := parseSlotLog([]byte(golden(t, "fw-log-2.3-qemu.json")))
	require.NoError(t, err)
	assert.Equal(t, slotLog{Active: 1, Revisions: map[int]inventory.Version{1: "1.0"}}, l)

	l, err = parseSlotLog([]byte(golden(t, "fw-log-2.13-pending.json")))
	require.NoError(t, err)
	assert.Equal(t, slotLog{Active: 1, Next: 2, Revisions: map[int]inventory.Version{1: "GDC5602Q", 2: "GDC5902Q"}}, l)
	slot, revision := l.stored(controller{Slots: 3})
	assert.Equal(t, 2, slot)
	assert.Equal(t, inventory.Version("GDC5902Q"), revision)
}

func TestParseSlotLogRefusesUnknown(t *testing.T) {
	for name, out := range map[string]string{
		"nothing":           "",
		"an empty reply":    "{}",
		"two devices":       `{"nvme0":{"Active Firmware Slot (afi)":1},"nvme1":{"Active Firmware Slot (afi)":1}}`,
		"no active slot":    `{"nvme0":{"Firmware Rev Slot 1":"2314885530819505713 (1.0.....)"}}`,
		"slots from zero":   `{"nvme0":{"Active Firmware Slot (afi)":1,"Firmware Rev Slot 0":"4913481276801305153 (ABCDF)"}}`,
		"a revision as hex": `{"nvme0":{"Active Firmware Slot (afi)":1,"Firmware Rev Slot 1":"0x51334234414e5047 (GPNA4B3Q)"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			l, err := parseSlotLog([]byte(out))
			require.Error(t, err)
			assert.Zero(t, l)
		})
	}
}

func TestARevisionThatIsNotASCIIIsUnknownInItsSlotAlone(t *testing.T) {
	out := `{"nvme0":{"Active Firmware Slot (afi)":17,"Firmware Rev Slot 1":"4913481276801305153 (ABCDF)",
		"Firmware Rev Slot 2":"18446744073709551615 (........)"}}`
	fromTool, err := parseSlotLog([]byte(out))
	require.NoError(t, err)
	native := newSlotLog(admin.SlotLog{AFI: 17, Revisions: [7]string{string(fromTool.Revisions[1])}, Unreadable: [7]bool{1: true}})
	assert.Equal(t, fromTool, native)
	revision, held := native.Revisions[2]
	assert.True(t, held, "the slot is not empty")
	assert.Empty(t, revision)
	c := controller{Slots: 3, Downloadable: true, Revision: native.Revisions[1]}
	slot, err := slotFor(c, native)
	require.NoError(t, err)
	assert.Equal(t, 3, slot, "the empty one comes first")
}

// A drive with one slot keeps running the old image while the slot holds the new one.
func TestSingleSlotHoldsStagedImage(t *testing.T) {
	c := controller{Slots: 1, Downloadable: true, Revision: "OLD"}
	l := slotLog{Active: 1, Next: 1, Revisions: map[int]inventory.Version{1: "NEW"}}
	slot, err := slotFor(c, l)
	require.NoError(t, err)
	assert.Equal(t, 1, slot)
	assert.Equal(t, inventory.ActivateDeviceReset, needs(c, l))
	assert.Equal(t, []inventory.Slot{{Number: 1, Version: "NEW", State: inventory.SlotPending}}, slots(c, l))
}

func TestTheSlotToWrite(t *testing.T) {
	for name, c := range map[string]struct {
		controller controller
		log        slotLog
		want       int
	}{
		"an empty one before one that holds an image": {
			controller{Slots: 3}, slotLog{Active: 1, Revisions: map[int]inventory.Version{1: "A", 2: "B"}}, 3,
		},
		"the one whose image never ran before all others": {
			controller{Slots: 3}, slotLog{Active: 1, Next: 2, Revisions: map[int]inventory.Version{1: "A", 2: "B"}}, 2,
		},
		"not the first one when it is read-only": {
			controller{Slots: 3, FirstSlotReadOnly: true}, slotLog{Active: 2, Revisions: map[int]inventory.Version{1: "A", 2: "B"}}, 3,
		},
		"none when only the running one is writable": {
			controller{Slots: 2, FirstSlotReadOnly: true}, slotLog{Active: 2}, 0,
		},
		"not the one that holds what runs when the drive does not say which slot that is": {
			controller{Slots: 2, Revision: "A"}, slotLog{Revisions: map[int]inventory.Version{1: "A", 2: "B"}}, 2,
		},
		"any when the drive does not say and another holds what runs, too": {
			controller{Slots: 2, Revision: "A"}, slotLog{Revisions: map[int]inventory.Version{1: "A", 2: "A"}}, 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := slotFor(c.controller, c.log)
			assert.Equal(t, c.want, got)
			assert.Equal(t, c.want == 0, err != nil)
		})
	}
}

func TestTheRunningSlotIsNeverOverwrittenWhenThereIsAnother(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := controller{Slots: rapid.IntRange(1, 7).Draw(t, "slots"), FirstSlotReadOnly: rapid.Bool().Draw(t, "ro"), Revision: "A"}
		l := slotLog{
			Active:    rapid.IntRange(0, c.Slots).Draw(t, "active"),
			Next:      rapid.IntRange(0, c.Slots).Draw(t, "next"),
			Revisions: map[int]inventory.Version{},
		}
		for i := 1; i <= c.Slots; i++ {
			l.Revisions[i] = inventory.Version(rapid.SampledFrom([]string{"", "A", "B"}).Draw(t, "revision"))
		}
		slot, err := slotFor(c, l)
		if err != nil {
			return
		}
		if slot < 1 || slot > c.Slots || slot == 1 && c.FirstSlotReadOnly || slot == l.Active && c.Slots > 1 {
			t.Fatalf("slot %d of %+v %+v", slot, c, l)
		}
		kept := false
		for i, r := range l.Revisions {
			kept = kept || i != slot && r == c.Revision
		}
		if l.Active == 0 && c.Slots > 1 && l.Revisions[slot] == c.Revision && !kept {
			t.Fatalf("slot %d of %+v %+v holds the only image of what runs", slot, c, l)
		}
	})
}

func TestCommitIsReadFromWhatItPrintsNotFromItsExitCode(t *testing.T) {
	c := cliCommit("/dev/nvme0", "lock", 2, admin.ReplaceAtReset)
	for file, want := range map[string]inventory.Activation{
		"fw-commit-2.3-ok.txt":             inventory.ActivateDeviceReset,
		"fw-commit-2.3-any-controller.txt": inventory.ActivateDeviceReset,
		"fw-commit-2.3-conventional.txt":   inventory.ActivateReboot,
		"fw-commit-2.3-subsystem.txt":      inventory.ActivateReboot,
	} {
		exit := 1
		if strings.HasSuffix(file, "ok.txt") {
			exit = 0
		}
		got, err := committed(c, command.Result{ExitCode: exit, Stdout: []byte(golden(t, file))})
		require.NoError(t, err, file)
		assert.Equal(t, want, got, file)
	}
	_, err := committed(c, command.Result{ExitCode: 0})
	assert.Error(t, err, "an exit code of 0 and no word of success")
	_, err = committed(c, command.Result{ExitCode: 1, Stdout: []byte("Success activating firmware action:1 slot:2, but firmware requires unknown reset\n")})
	assert.Error(t, err)
}

// committed reads what nvme-cli says of a commit as the driver does.
func committed(c command.Command, r command.Result) (inventory.Activation, error) {
	status, err := parseCommit(c, r)
	if err != nil {
		return 0, err
	}
	return answer{status, c, r}.activation()
}

func TestStatusesAreClassified(t *testing.T) {
	c := cliCommit("/dev/nvme0", "lock", 2, admin.ReplaceAtReset)
	for status, rejected := range map[admin.Status]bool{
		admin.InvalidImage: true, admin.ActivationProhibited: true, admin.InvalidSlot: false, admin.MaximumTimeViolation: false, admin.OverlappingRange: false, 0x2: false,
	} {
		for _, retry := range []int{0, 0x4000, 0x2000} { // with and without Do Not Retry and More
			text := fmt.Sprintf("NVMe status: Some text(%#x)\n", int(status)|retry)
			_, err := committed(c, command.Result{ExitCode: 1, Stderr: []byte(text)})
			require.Error(t, err)
			var r *driver.RejectedError
			var failed *command.Error
			if rejected {
				assert.ErrorAs(t, err, &r, text)
			} else {
				assert.ErrorAs(t, err, &failed, text)
			}
		}
	}
	for status, want := range map[admin.Status]inventory.Activation{
		admin.NeedsControllerReset: inventory.ActivateDeviceReset, admin.NeedsConventionalReset: inventory.ActivateReboot, admin.NeedsSubsystemReset: inventory.ActivateReboot,
	} {
		got, err := committed(c, command.Result{ExitCode: 1, Stderr: fmt.Appendf(nil, "NVMe status: Some text(%#x)\n", int(status))})
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	for _, file := range []string{"fw-commit-2.3-error-image.txt", "fw-commit-2.3-error-slot.txt"} {
		_, found := parseStatus(golden(t, file))
		assert.True(t, found, file)
	}
	_, found := parseStatus(golden(t, "fw-download-2.3-error.txt"))
	assert.False(t, found)
}

func TestCommandLinesOfNVMeCLI(t *testing.T) {
	assert.Equal(t, "nvme fw-commit /dev/nvme0 --slot=2 --action=1", cliCommit("/dev/nvme0", "l", 2, admin.ReplaceAtReset).String())
	assert.Equal(t, "nvme fw-download /dev/nvme0 --fw=/i --progress --xfer=32768", cliDownload("/dev/nvme0", "/i", "l", 32768, nil).String())
	assert.Equal(t, "nvme fw-download /dev/nvme0 --fw=/i --progress", cliDownload("/dev/nvme0", "/i", "l", 0, nil).String())
}

func TestProgressFollowsTheDownload(t *testing.T) {
	var got []int
	report := driver.Progress(func(p int) { got = append(got, p) }).Lines(driver.Percentage)
	for _, line := range strings.FieldsFunc(golden(t, "fw-download-2.3.txt"), func(r rune) bool { return r == '\r' || r == '\n' }) {
		report(line)
	}
	assert.Equal(t, []int{0, 50, 93}, got)
}

func FuzzParseController(f *testing.F) {
	f.Add(golden(f, "id-ctrl-2.3-samsung.json"))
	f.Add(golden(f, "id-ctrl-2.3-qemu.json"))
	f.Fuzz(func(t *testing.T, out string) {
		c, err := parseController([]byte(out))
		if err == nil {
			assert.NotEmpty(t, c.Revision)
			assert.LessOrEqual(t, c.Slots, admin.MaxSlots)
		}
	})
}

func FuzzParseSlotLog(f *testing.F) {
	f.Add(golden(f, "fw-log-2.3-qemu.json"))
	f.Add(golden(f, "fw-log-2.13-pending.json"))
	f.Fuzz(func(t *testing.T, out string) {
		l, err := parseSlotLog([]byte(out))
		if err != nil {
			assert.Zero(t, l)
			return
		}
		for slot := range l.Revisions {
			assert.True(t, slot >= 1 && slot <= admin.MaxSlots)
		}
	})
}

func TestPowerOnHoursAreReadAsEachReleasePrintsThem(t *testing.T) {
	for out, want := range map[string]int64{
		`{"critical_warning": 0, "power_on_hours": 32767}`:        32767,
		`{"critical_warning": 0, "power_on_hours": 32767.0}`:      32767,
		`{"critical_warning": {"value": 0}, "power_on_hours": 0}`: 0,
	} {
		hours, err := parsePowerOnHours([]byte(out))
		require.NoError(t, err, out)
		assert.Equal(t, want, hours, out)
	}
	for out, why := range map[string]string{
		`{"critical_warning": 0}`:                                     "power_on_hours is missing",
		`{"power_on_hours": -1}`:                                      "no such count: -1",
		`{"power_on_hours": 32767.5}`:                                 "no such count",
		`{"power_on_hours": 340282366920938463463374607431768211455}`: "no such count",
		`Segmentation fault`:                                          "parse smart-log",
	} {
		_, err := parsePowerOnHours([]byte(out))
		require.ErrorContains(t, err, why, out)
	}
}

// sanitizeLog is what nvme-cli prints of a log.
func sanitizeLog(progress, global int, status string, command int) string {
	return fmt.Sprintf(`{"nvme0":{"sprog":%d,"sstat":{"global_erased":%d,"no_cmplted_passes":0,"status":%q},"cdw10_info":%d,`+
		`"time_over_write":4294967295,"time_block_erase":120,"time_crypto_erase":10}}`, progress, global, status, command)
}

func TestSanitizeLogIsReadAsEachReleasePrintsIt(t *testing.T) {
	for out, want := range map[string]admin.SanitizeLog{
		sanitizeLog(65535, 1, "(0) The NVM subsystem has never been sanitized.", 0):                  {Progress: 65535, GlobalDataErased: true, Status: 0x100},
		sanitizeLog(65535, 256, "(1) Most Recent Sanitize Command Completed Successfully.", 12):      {Progress: 65535, GlobalDataErased: true, State: admin.Sanitized, Command: 12, Status: 0x101},
		sanitizeLog(32768, 0, "(2) Sanitize in Progress.", 27):                                       {Progress: 32768, State: admin.Sanitizing, Command: 27, Status: 2},
		sanitizeLog(65535, 0, "(3) Most Recent Sanitize Command Failed.", 10):                        {Progress: 65535, State: admin.SanitizeFailed, Command: 10, Status: 3},
		sanitizeLog(65535, 0, "(4) Most Recent Sanitize Command (No-Deallocate After Sanitize)", 12): {Progress: 65535, State: admin.SanitizedNoDealloc, Command: 12, Status: 4},
	} {
		log, err := parseSanitizeLog([]byte(out))
		require.NoError(t, err, out)
		assert.Equal(t, want, log, out)
	}
	for out, why := range map[string]string{
		"Sanitize Progress (SPROG): 65535": "parse sanitize-log",
		"{}":                               "0 devices",
		`{"nvme0":{"sprog":1}}`:            "is missing",
		sanitizeLog(1, 0, "Sanitize in Progress.", 12):                               "no such status",
		sanitizeLog(1, 2, "(1) Completed", 12):                                       "no such status",
		sanitizeLog(1, 0, "(5) Reserved", 12):                                        "its status 5 is unknown",
		sanitizeLog(1, 0, "(9) Reserved", 12):                                        "status",
		sanitizeLog(1, 0, "(1) Most Recent Sanitize Command Completed", 1):           "its action 1 is unknown",
		sanitizeLog(70000, 0, "(2) Sanitize in Progress.", 12):                       "parse sanitize-log",
		`{"nvme0":{"sprog":1,"cdw10_info":2,"sstat":{}},"nvme1":{"sprog":1}}`:        "2 devices",
		strings.Replace(sanitizeLog(1, 0, "(2) x", 12), `"global_erased":0,`, "", 1): "is missing",
		strings.Replace(sanitizeLog(1, 0, "(2) x", 12), `"cdw10_info":12,`, "", 1):   "is missing",
	} {
		_, err := parseSanitizeLog([]byte(out))
		require.ErrorContains(t, err, why, out)
	}
}

func FuzzParseSanitizeLog(f *testing.F) {
	f.Add(sanitizeLog(32768, 0, "(2) Sanitize in Progress.", 27))
	f.Add(sanitizeLog(65535, 256, "(1) Most Recent Sanitize Command Completed Successfully.", 12))
	f.Fuzz(func(t *testing.T, out string) {
		l, err := parseSanitizeLog([]byte(out))
		if err != nil {
			assert.Zero(t, l)
			return
		}
		assert.LessOrEqual(t, l.State, admin.SanitizedNoDealloc)
	})
}

// What the drive answers says whether it has begun.
func TestEveryAnswerToASanitizeHasItsConsequence(t *testing.T) {
	id := id
	id.Model, id.SerialNumber = "SAMSUNG MZQL23T8HCLS-00A07", "S64HNE0T000000"
	for text, c := range map[string]struct {
		rejected bool
		says     string
	}{
		"": {},
		"NVMe status: Sanitize In Progress: no(0x401d)\n":              {true, "is being sanitized already"},
		"NVMe status: Firmware Activation Requires Reset: no(0x111)\n": {true, "waits for its activation"},
		"NVMe status: Invalid Field in Command: no(0x4002)\n":          {true, "the drive answered 0x2 (invalid field)"},
		"NVMe status: Command Aborted due to Host: no(0x371)\n":        {false, "ended by this machine"},
		"sanitize: Input/output error\n":                               {false, "did not answer"},
	} {
		d := newDrive(t, "id-ctrl-2.3-samsung.json", "fw-log-2.3-qemu.json")
		if text != "" {
			d.sanitize = command.Result{ExitCode: 1, Stderr: []byte(text)}
		}
		runner := d.runner(t)
		err := New(runner).Erase(t.Context(), id, driver.EraseBlock)
		assert.Contains(t, runner.Lines(), "nvme sanitize /dev/nvme0 --sanact=2 --ause")
		if c.says == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, c.says, text)
		assert.Equal(t, c.rejected, errors.As(err, new(*driver.RejectedError)), text)
	}
	runner := newDrive(t, "id-ctrl-2.3-samsung.json", "fw-log-2.3-qemu.json").runner(t)
	require.ErrorContains(t, New(runner).Erase(t.Context(), id, driver.EraseOverwrite), "offers no sanitize by Overwrite")
	assert.NotContains(t, strings.Join(runner.Lines(), " "), "nvme sanitize", "nothing weaker, and nothing at all")
	id.Model = "SAMSUNG MZQL27T6HBLA-00A07"
	require.ErrorContains(t, New(runner).Erase(t.Context(), id, driver.EraseBlock), "/dev/nvme0 is another drive now, SAMSUNG MZQL23T8HCLS-00A07")
	assert.NotContains(t, strings.Join(runner.Lines(), " "), "nvme sanitize")
}

func FuzzParsePowerOnHours(f *testing.F) {
	f.Add(`{"critical_warning": 0, "power_on_hours": 32767}`)
	f.Fuzz(func(t *testing.T, out string) {
		hours, err := parsePowerOnHours([]byte(out))
		assert.True(t, hours >= 0 && hours <= inventory.MostPowerOnHours && (err == nil || hours == 0))
	})
}
