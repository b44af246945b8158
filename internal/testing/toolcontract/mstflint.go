package toolcontract

// The tools of the package mstflint. What they answer about a device that exists was read in their sources (version 4.21.0,
// Debian 12), because no such device was at hand.

const (
	noMstDevice = "-E- Cannot open Device: {absent}." // 4.21 adds why
	// notIdentified is mstfwreset's answer about a device that its helper mstmcra cannot open.
	notIdentified = "-E- Failed to Identify Device: {absent}, mopen: No such file or directory"
	// onVirtual is its answer to every reset on a virtual machine, and onSecureBoot to all but a warm reboot under Secure Boot.
	onVirtual    = "-E- The tool is not supported on virtual machines."
	onSecureBoot = "-E- The tool supports only reset-level 4 on UEFI Secure Boot."
)

// Mstflint reads and burns NVIDIA network adapters.
func Mstflint() Tool {
	const noImage = "Can not open file \"{missing}\" - No such file or directory"
	return known(Tool{
		Name: "mstflint",
		Marks: []Mark{
			{"Invalid command: ", Usage}, {"unrecognized option", Usage}, {"No command found", Usage}, {"No options found", Usage},
			{" requires 1 arguments", Usage}, {" requires both image and device", Usage}, {" requires device, but", Usage},
			{"Cannot open Device: ", NoDevice},
			{"Can not open file ", NoFile},
			{"Cannot open Image: ", BadFile}, {"Failed to query image: ", BadFile}, {"FW image verification failed", BadFile},
			{"Failed to lock flash semaphore", Locked},
		},
		Cases: []Case{
			{Name: "read a card", Args: []string{"-d", "{absent}", "-qq", "q"}, Want: Want{NoDevice, 1, noMstDevice}},
			{
				Name: "read an image of odd size", Args: []string{"-i", "{junk}", "q"},
				Want: Want{BadFile, 1, "-E- Cannot open Image: {junk}. Image size should be 4-bytes aligned."},
			},
			{
				Name: "read what is no image", Args: []string{"-i", "{blank}", "q"},
				Want: Want{BadFile, 1, "-E- Failed to query image: {blank}. No valid image found"},
			},
			{Name: "read an image that is not there", Args: []string{"-i", "{missing}", "q"}, Want: Want{NoFile, 1, noImage}},
			{
				Name: "verify an image of odd size", Args: []string{"-i", "{junk}", "v"},
				Want: Want{BadFile, 1, "-E- "}, // 4.21 opens it first, 4.33 looks at its size
			},
			{
				Name: "verify what is no image", Args: []string{"-i", "{blank}", "v"},
				Want: Want{BadFile, 1, "-E- FW image verification failed: No valid image found. AN HCA DEVICE CAN NOT BOOT FROM THIS IMAGE."},
			},
			{Name: "verify an image that is not there", Args: []string{"-i", "{missing}", "v"}, Want: Want{NoFile, 1, noImage}},
			{Name: "read the image of a card", Args: []string{"-d", "{absent}", "ri", "{out}"}, Want: Want{NoDevice, 1, noMstDevice}},
			{Name: "burn", Args: []string{"-d", "{absent}", "-i", "{blank}", "-y", "b"}, Want: Want{NoDevice, 1, noMstDevice}},
			{
				Name: "burn an image of odd size", Args: []string{"-d", "{absent}", "-i", "{junk}", "-y", "b"},
				Want: Want{BadFile, 1, "-E- Cannot open Image: {junk}. Image size should be 4-bytes aligned."},
			},
			{
				Name: "burn an image that is not there", Args: []string{"-d", "{absent}", "-i", "{missing}", "-y", "b"},
				Want: Want{NoFile, 1, noImage},
			},
			{Name: "store the running image again", Args: []string{"-d", "{absent}", "image_reactivation"}, Want: Want{NoDevice, 1, noMstDevice}},
			{Name: "the same by its short name", Args: []string{"-d", "{absent}", "ir"}, Want: Want{NoDevice, 1, noMstDevice}},
			{
				Name: "the same by the name in the help text", Args: []string{"-d", "{absent}", "image_reactivate"},
				Want: Want{Usage, 1, "Invalid command: image_reactivate"},
			},
			{Name: "an option that does not exist", Args: []string{"-d", "{absent}", "--nope", "q"}, Want: Want{Usage, 1, "unrecognized option `--nope'"}},
			{Name: "no argument", Want: Want{Usage, 1, "No options found."}},
			{Name: "no command", Args: []string{"-d", "{absent}"}, Want: Want{Usage, 1, "No command found."}},
			{
				Name: "read the image without a file", Args: []string{"-d", "{absent}", "ri"},
				Want: Want{Usage, 1, "-E- Command \"ri\" requires 1 arguments, but 0 arguments were given"},
			},
			{
				Name: "burn without an image", Args: []string{"-d", "{absent}", "b"},
				Want: Want{Usage, 1, "-E- Command \"burn\" requires both image and device to be specified."},
			},
			{
				Name: "take back in a file", Args: []string{"-i", "{blank}", "ir"},
				Want: Want{Usage, 1, "-E- Command \"image_reactivation\" requires device, but an image file was given."},
			},
		},
	})
}

// Mstfwreset resets NVIDIA network adapters.
func Mstfwreset() Tool {
	reset := func(name, level string) Case {
		c := Case{
			Name: name, Args: []string{"-d", "{absent}", "-l", level, "-y", "r"}, Want: Want{NoDevice, 1, notIdentified},
			On: map[Condition]Want{Virtual: {Refused, 1, onVirtual}, SecureBoot: {Refused, 1, onSecureBoot}},
		}
		if level == "4" {
			delete(c.On, SecureBoot)
		}
		return c
	}
	return known(Tool{
		Name: "mstfwreset",
		Marks: []Mark{
			{"mstfwreset: error: ", Usage},
			{"not supported on virtual machines", Refused}, {"supports only reset-level 4", Refused},
			{"Failed to Identify Device", NoDevice},
		},
		Cases: []Case{
			{Name: "which resets a card offers", Args: []string{"-d", "{absent}", "q"}, Want: Want{NoDevice, 1, notIdentified}},
			reset("patch the running firmware", "0"),
			reset("reset the card and its driver", "3"),
			reset("reboot the machine", "4"),
			{
				Name: "level 5, which no version of this tool has", Args: []string{"-d", "{absent}", "-l", "5", "-y", "r"},
				Want: Want{Usage, 2, "argument --level/-l: invalid choice: "},
			},
			{
				Name: "a type that does not exist", Args: []string{"-d", "{absent}", "-l", "3", "-t", "9", "-y", "r"},
				Want: Want{Usage, 2, "argument --type/-t: invalid choice: "},
			},
			{
				Name: "an option that does not exist", Args: []string{"-d", "{absent}", "--nope", "q"},
				Want: Want{Usage, 2, "unrecognized arguments: --nope"},
			},
			{Name: "no device", Args: []string{"q"}, Want: Want{Usage, 2, "the following arguments are required: --device/-d"}},
			{Name: "no command", Args: []string{"-d", "{absent}"}, Want: Want{Usage, 2, "the following arguments are required: command"}},
			{
				Name: "a command that does not exist", Args: []string{"-d", "{absent}", "frob"},
				Want: Want{Usage, 2, "argument command: invalid choice: 'frob' (choose from "},
			},
		},
	})
}

// Mstconfig reads and changes the settings of NVIDIA network adapters.
func Mstconfig() Tool {
	return known(Tool{
		Name: "mstconfig",
		Marks: []Mark{
			{"invalid argument: ", Usage}, {"missing configuration arguments", Usage}, {"Invalid Configuration argument", Usage},
			{"Failed to open the device", NoDevice},
		},
		Cases: []Case{
			{
				Name: "the mode of a BlueField", Args: []string{"-d", "{absent}", "-e", "q", "INTERNAL_CPU_MODEL", "INTERNAL_CPU_OFFLOAD_ENGINE"},
				Want: Want{NoDevice, 3, "-E- Failed to open the device"},
			},
			{Name: "all settings", Args: []string{"-d", "{absent}", "-e", "q"}, Want: Want{NoDevice, 3, "-E- Failed to open the device"}},
			{
				Name: "whether it takes values", Args: []string{"-d", "{absent}", "s", "SRIOV_EN=1", "NUM_OF_VFS=8"},
				Want: Want{NoDevice, 3, "-E- Failed to open the device"},
			},
			{
				Name: "store values", Args: []string{"-d", "{absent}", "-y", "s", "SRIOV_EN=1", "NUM_OF_VFS=8"},
				Want: Want{NoDevice, 3, "-E- Failed to open the device"},
			},
			{
				Name: "store nothing", Args: []string{"-d", "{absent}", "-y", "s"},
				Want: Want{Usage, 3, "-E- missing configuration arguments"},
			},
			{
				Name: "store no value", Args: []string{"-d", "{absent}", "-y", "s", "SRIOV_EN"},
				Want: Want{Usage, 3, "-E- Invalid Configuration argument SRIOV_EN"},
			},
			{
				Name: "an option that does not exist", Args: []string{"-d", "{absent}", "--nope", "q"},
				Want: Want{Usage, 3, "-E- invalid argument: --nope"},
			},
		},
	})
}
