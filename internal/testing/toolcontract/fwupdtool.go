package toolcontract

// Fwupdtool stages firmware of the machine and writes SATA drives. Its cases run without hardware: the first variable names another
// directory in place of /sys/firmware, in which there is nothing. What it answers about hardware is tested apart; see
// TestRealFwupdtoolStagesCapsule.
func Fwupdtool() Tool {
	const absent = "0000000000000000000000000000000000000000"
	noHardware := []string{"FWUPD_SYSFSFWDIR=/nowhere"}
	const noDevice, noImage, noCabinet = "device ID " + absent + " was not found", "{missing}", "failed to load file: "
	var cases []Case
	for _, p := range []struct{ of, plugin string }{{"the firmware", "uefi_capsule"}, {"drives", "ata"}} {
		install := []string{"install", "{blank}", absent, "--json", "--no-reboot-check", "--plugins", p.plugin}
		older := append(append([]string(nil), install...), "--allow-older")
		again := append(append([]string(nil), older...), "--allow-reinstall")
		cases = append(cases,
			Case{Name: "list " + p.of, Args: []string{"get-devices", "--json", "--plugins", p.plugin}, Want: Want{NoDevice, 2, "No detected devices"}},
			Case{
				Name: "read what is no archive, for " + p.of, Args: []string{"get-details", "{blank}", "--json", "--plugins", p.plugin},
				Want: Want{BadFile, 1, noCabinet},
			},
			Case{
				Name: "read an archive that is not there, for " + p.of, Args: []string{"get-details", "{missing}", "--json", "--plugins", p.plugin},
				Want: Want{NoFile, 3, noImage},
			},
			Case{Name: "install on " + p.of, Args: install, Want: Want{NoDevice, 3, noDevice}},
			Case{Name: "install an older version on " + p.of, Args: older, Want: Want{NoDevice, 3, noDevice}},
			Case{Name: "install the same version on " + p.of, Args: again, Want: Want{NoDevice, 3, noDevice}},
			Case{
				Name: "no writable place for its lock, for " + p.of, Args: []string{"get-devices", "--json", "--plugins", p.plugin},
				Want: Want{Refused, 1, "Failed to lock: failed to open /proc/fwupdtool"},
				Env:  []string{"FWUPD_LOCKDIR=/proc"},
			},
		)
	}
	cases = append(cases,
		Case{Name: "what is staged", Args: []string{"get-history", "--json", "--plugins", "uefi_capsule"}, Want: Want{NoDevice, 2, "No history"}},
		Case{Name: "activate a drive", Args: []string{"activate", absent, "--json", "--plugins", "ata"}, Want: Want{NoDevice, 2, "No devices to activate"}},
		Case{Name: "a command that does not exist", Args: []string{"frobnicate", "--json"}, Want: Want{Usage, 1, "Command not found"}},
		Case{
			Name: "an option that does not exist", Args: []string{"get-devices", "--json", "--nope"},
			Want: Want{Usage, 1, "Failed to parse arguments: Unknown option --nope"},
		},
		Case{
			Name: "a plugin that does not exist", Args: []string{"get-devices", "--json", "--plugins", "nope"},
			Want: Want{NoDevice, 2, "No detected devices"},
		},
	)
	for i := range cases {
		if cases[i].Env == nil {
			cases[i].Env = noHardware
		}
	}
	return known(Tool{
		Name: "fwupdtool",
		Marks: []Mark{
			{"Unknown option", Usage}, {"Command not found", Usage},
			{"another instance has locked", Locked}, {"Failed to lock", Refused},
			{"No such file or directory", NoFile}, {noCabinet, BadFile},
			{" was not found", NoDevice}, {"No detected devices", NoDevice}, {"No history", NoDevice}, {"No devices to activate", NoDevice},
		},
		Cases: cases,
	})
}
