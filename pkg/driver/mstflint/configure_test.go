package mstflint

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/command/commandtest"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// withoutSettings is mstconfig for a card that keeps none.
func withoutSettings(context.Context, command.Command) (command.Result, error) {
	return command.Result{ExitCode: 3, Stdout: []byte("\n-E- Device doesn't support any configuration changes.\n")}, nil
}

// configured plays a card whose mstconfig answers by the command.
func configured(t *testing.T, answer func(args string) command.Result) (*Driver, *commandtest.Runner) {
	t.Helper()
	tools := map[string]commandtest.Tool{
		"mstconfig": func(_ context.Context, c command.Command) (command.Result, error) {
			return answer(strings.Join(c.Argv[3:], " ")), nil
		},
		"mstflint": func(context.Context, command.Command) (command.Result, error) {
			return command.Result{Stdout: []byte(golden(t, "query-4.21.0-cx6.txt"))}, nil
		},
		"mstfwreset": func(context.Context, command.Command) (command.Result, error) {
			return command.Result{Stdout: []byte(golden(t, "reset-4.21.0-level3.txt"))}, nil
		},
	}
	r := commandtest.NewRunner(t, tools)
	return New(r, machine), r
}

func says(code int, text string) command.Result {
	return command.Result{ExitCode: code, Stdout: []byte(text)}
}

func TestANameThatTheCardLacksIsLeftOut(t *testing.T) {
	d, r := configured(t, func(args string) command.Result {
		switch args {
		case "-e q NOPE SRIOV_EN OTHER":
			return says(3, "\n-E- Unknown Parameter: NOPE\n")
		case "-e q SRIOV_EN OTHER":
			return says(3, "\nDevice #1:\n\n-E- The Device doesn't support OTHER parameter\n")
		}
		return says(0, "\nConfigurations: Default Current Next Boot\n*   SRIOV_EN True(1) False(0) True(1)\n")
	})
	all, err := d.Parameters(t.Context(), id, "NOPE", "SRIOV_EN", "OTHER", "-y")
	require.NoError(t, err)
	require.Len(t, all, 1)
	assert.True(t, all[0].Stores("true"))
	assert.Len(t, r.Lines("mstconfig"), 3)
}

func TestFailedReadsAreNoAbsence(t *testing.T) {
	for name, result := range map[string]command.Result{
		"the card does not answer":   says(3, "-E- Failed to open the device\n"),
		"another name than asked":    says(3, "-E- The Device doesn't support SOMETHING parameter\n"),
		"part of what was asked":     says(3, "\nConfigurations: Next Boot\n    SRIOV_EN True(1)\n-E- Failed to query some of the TLVs:\n"),
		"nothing":                    says(3, ""),
		"another tool of that name":  says(0, "mstconfig: bad interpreter\n"),
		"a card that keeps settings": says(3, "-E- Device is busy\n"),
	} {
		d, _ := configured(t, func(string) command.Result { return result })
		_, err := d.Parameters(t.Context(), id, "SRIOV_EN")
		require.Error(t, err, name)
		assert.NotErrorIs(t, err, driver.ErrNotSupported, name)
	}
	d, _ := configured(t, func(string) command.Result { return says(3, "-E- Device doesn't support any configuration changes.\n") })
	_, err := d.Parameters(t.Context(), id)
	require.ErrorIs(t, err, driver.ErrNotSupported)
}

// Some parameters of a card that works cannot be read: the others are listed.
func TestAPartOfTheTableIsListed(t *testing.T) {
	d, _ := configured(t, func(string) command.Result {
		return says(3, "\nConfigurations: Next Boot\n    SRIOV_EN True(1)\n-E- Failed to query some of the TLVs:\n    Failed to query the next values of the following TLVs:\n    nv_x \n")
	})
	all, err := d.Parameters(t.Context(), id)
	require.NoError(t, err)
	assert.Len(t, all, 1)
}

func TestTheToolJudgesValuesBeforeAnythingIsWritten(t *testing.T) {
	table := golden(t, "config-4.21.0-cx6.txt")
	set := driver.Configuration{Set: []inventory.Setting{{Name: "PCI_ATOMIC_MODE", Value: "7"}}}
	for name, c := range map[string]struct {
		answer             command.Result
		rejected, accepted bool
	}{
		"it takes them": {says(2, table+"\n Apply new Configuration? (y/n) [n] : -E- Aborted by user.\n"), false, true},
		"it does not":   {says(3, table+"-E- Cannot set the value 7 for the parameter pci_atomic(PCI_ATOMIC_MODE): Unknown value 7\n"), true, false},
		"it fails":      {says(3, "-E- Failed to open the device\n"), false, false},
		"it is another": {says(0, "done\n"), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			d, r := configured(t, func(args string) command.Result {
				if strings.HasPrefix(args, "-e q") {
					return says(0, table)
				}
				return c.answer
			})
			err := d.CheckConfiguration(t.Context(), id, set)
			assert.Equal(t, c.accepted, err == nil)
			rejected := new(driver.RejectedError)
			if c.rejected {
				require.ErrorAs(t, err, &rejected)
				assert.ErrorContains(t, err, "Unknown value 7")
			} else {
				assert.NotErrorAs(t, err, &rejected)
			}
			for _, line := range r.Lines("mstconfig") {
				assert.NotContains(t, line, "-y", "a check writes nothing")
			}
		})
	}
}

// A card that cannot be told to load its settings with a warm boot needs the power to be cut.
func TestAPowerCycleIsAskedForByTheTool(t *testing.T) {
	table := golden(t, "config-4.21.0-cx6.txt")
	for text, want := range map[string]inventory.Activation{
		"-I- Please reboot machine to load new configurations.\n":      inventory.ActivateDeviceReset,
		"-I- Please power cycle machine to load new configurations.\n": inventory.ActivatePowerCycle,
	} {
		d, r := configured(t, func(args string) command.Result {
			if strings.HasPrefix(args, "-e q") {
				return says(0, table)
			}
			return says(0, "Applying... Done!\n"+text)
		})
		got, err := d.Configure(t.Context(), id, driver.Configuration{Set: []inventory.Setting{{Name: "numVFs", Value: "32"}}})
		require.NoError(t, err)
		assert.Equal(t, want, got)
		assert.Contains(t, r.Lines("mstconfig"), "mstconfig -d 0000:3b:00.0 -y s NUM_OF_VFS=32")
		got, err = d.Configure(t.Context(), id, driver.Configuration{Set: []inventory.Setting{{Name: "numVFs", Value: "8"}}})
		require.NoError(t, err)
		assert.Equal(t, inventory.ActivateNone, got, "it runs already, and what waited does no longer")
	}
}

// Older firmware does not say what is in force, so that what was written waits for the activation.
func TestACardThatReportsNextAloneNeedsItsActivation(t *testing.T) {
	const table = "\nConfigurations: Next Boot\n    SRIOV_EN True(1)\n    NUM_OF_VFS 8\n"
	d, _ := configured(t, func(args string) command.Result {
		if strings.HasPrefix(args, "-e q") {
			return says(0, table)
		}
		return says(0, "Applying... Done!\n-I- Please reboot machine to load new configurations.\n")
	})
	for value, want := range map[string]inventory.Activation{"32": inventory.ActivateDeviceReset, "8": inventory.ActivateNone} {
		got, err := d.Configure(t.Context(), id, driver.Configuration{Set: []inventory.Setting{{Name: "numVFs", Value: value}}})
		require.NoError(t, err)
		assert.Equal(t, want, got, value)
	}
}

// The tool stores one group of parameters after another, and ends at the first that the card refuses.
func TestARefusedGroupMayLeaveEarlierOnesStored(t *testing.T) {
	table := golden(t, "config-4.21.0-cx6.txt")
	d, _ := configured(t, func(args string) command.Result {
		if strings.HasPrefix(args, "-e q") {
			return says(0, table)
		}
		return says(3, "Applying... Failed!\n-E- Failed to set configuration: Device busy\n")
	})
	_, err := d.Configure(t.Context(), id, driver.Configuration{Set: []inventory.Setting{{Name: "numVFs", Value: "32"}}})
	assert.ErrorContains(t, err, "some of the values may be stored")
}

func TestFourThousandParametersAreRead(t *testing.T) {
	var table strings.Builder
	table.WriteString("\nConfigurations: Default Current Next Boot\n")
	for i := range 4000 {
		fmt.Fprintf(&table, "        PARAMETER_WITH_A_LONG_NAME_%04d   False(0)   True(1)   False(0)\n", i)
	}
	d, _ := configured(t, func(args string) command.Result {
		if name, ok := strings.CutPrefix(args, "-e q "); ok {
			return says(3, "-E- Unknown Parameter: "+name+"\n")
		}
		return says(0, table.String())
	})
	all, err := d.Parameters(t.Context(), id)
	require.NoError(t, err)
	assert.Len(t, all, 4000)
	err = d.CheckConfiguration(t.Context(), id, driver.Configuration{Set: []inventory.Setting{{Name: "PARAMETER_WITH_A_LONG_NAME_3999X", Value: "1"}}})
	assert.ErrorContains(t, err, "the nearest are PARAMETER_WITH_A_LONG_NAME_3999, ")
}
