package toolcontract

// Devlink is firmware-devlink, which is part of this product: what answers is the kernel, real or played.
func Devlink() Tool {
	const noDevice = "no such device"
	// blank is the digest of {blank}: 4096 bytes of zero.
	const blank = "sha256:ad7facb2586fc6e966c004d7d1d16b024f5805ff7cb47c7a85dabd8b48892ca7"
	without := map[Condition]Want{NoDevlink: {Refused, 1, "this kernel is built without devlink"}}
	return Tool{
		Name: "firmware-devlink",
		Marks: []Mark{
			{"use: firmware-devlink ", Usage}, {"parse devlink handle ", Usage}, {"flag provided but not defined", Usage},
			{"flash: name the image", Usage}, {"parse digest ", Usage}, {" takes no argument ", Usage},
			{"built without devlink", Refused}, {"open image: ", NoFile}, {"is not the one that was verified", NoFile}, {noDevice, NoDevice},
		},
		Cases: []Case{
			{
				Name: "write an adapter", Args: []string{"flash", "pci/{absent}", "--file", "{blank}", "--digest", blank},
				Want: Want{NoDevice, 1, noDevice}, On: without,
			},
			{
				Name: "write an image that has changed", Args: []string{"flash", "pci/{absent}", "--file", "{junk}", "--digest", blank},
				Want: Want{NoFile, 7, "nothing was written, because the image is not the one that was verified: its content is sha256:"},
			},
			{
				Name: "write an image with half a digest", Args: []string{"flash", "pci/{absent}", "--file", "{blank}", "--digest", blank[:20]},
				Want: Want{Usage, 2, "want sha256: and 64 lower-case hexadecimal digits"},
			},
			{
				Name: "write an image that is not there", Args: []string{"flash", "pci/{absent}", "--file", "{missing}", "--digest", blank},
				Want: Want{NoFile, 1, "flash pci/{absent}: open image: lstat {missing}: no such file or directory"},
			},
			{Name: "activate what an adapter stores", Args: []string{"activate", "pci/{absent}"}, Want: Want{NoDevice, 1, noDevice}, On: without},
			{
				Name: "set a parameter", Args: []string{"set", "pci/{absent}", "enable_sriov/permanent", "true"},
				Want: Want{NoDevice, 1, noDevice}, On: without,
			},
			{Name: "reload a driver", Args: []string{"reinit", "pci/{absent}"}, Want: Want{NoDevice, 1, noDevice}, On: without},
			{Name: "a parameter without a value", Args: []string{"set", "pci/{absent}", "max_macs/driverinit"}, Want: Want{Usage, 2, "use: firmware-devlink "}},
			{Name: "no adapter", Args: []string{"activate"}, Want: Want{Usage, 2, "use: firmware-devlink flash HANDLE --file PATH"}},
			{Name: "a command that does not exist", Args: []string{"erase", "pci/{absent}"}, Want: Want{Usage, 2, "use: firmware-devlink flash HANDLE"}},
			{Name: "no handle", Args: []string{"activate", "{absent}"}, Want: Want{Usage, 2, "want BUS/DEVICE, such as pci/0000:3b:00.0"}},
			{Name: "no image", Args: []string{"flash", "pci/{absent}"}, Want: Want{Usage, 2, "flash: name the image with --file"}},
			{
				Name: "the option that would overwrite addresses", Args: []string{"flash", "pci/{absent}", "--file", "{blank}", "--overwrite", "identifiers"},
				Want: Want{Usage, 2, "flag provided but not defined: -overwrite"},
			},
			{Name: "too many arguments", Args: []string{"activate", "pci/{absent}", "now"}, Want: Want{Usage, 2, `activate takes no argument "now"`}},
		},
	}
}
