package toolcontract

// The cases of drives name devices that no machine has: /dev/nvme4095 and /dev/sg4095.

// NVMe reads and writes NVMe drives. The driver runs it where the drives are not those of the running kernel.
func NVMe() Tool {
	const absent = "/dev/nvme4095"
	noDevice := Want{NoDevice, 1, absent + ": No such file or directory"}
	return known(Tool{
		Name: "nvme",
		Marks: []Mark{
			{"Invalid sub-command", Usage}, {"unrecognized option", Usage}, {": Invalid argument", Usage}, {"Expected byte argument", Usage},
			{"Failed to open firmware file", NoFile}, {"Invalid size:", BadFile},
			{"/dev/nvme4095: No such file or directory", NoDevice},
		},
		Cases: []Case{
			{Name: "identify a drive", Args: []string{"id-ctrl", absent, "-o", "json"}, Want: noDevice},
			{Name: "read its firmware slots", Args: []string{"fw-log", absent, "-o", "json"}, Want: noDevice},
			{Name: "read its health", Args: []string{"smart-log", absent, "-o", "json"}, Want: noDevice},
			{Name: "read how its erasure stands", Args: []string{"sanitize-log", absent, "-o", "json"}, Want: noDevice},
			{Name: "erase its blocks", Args: []string{"sanitize", absent, "--sanact=2", "--ause"}, Want: noDevice},
			{Name: "overwrite it once", Args: []string{"sanitize", absent, "--sanact=3", "--ause", "--owpass=1"}, Want: noDevice},
			{Name: "erase its key", Args: []string{"sanitize", absent, "--sanact=4", "--ause"}, Want: noDevice},
			{Name: "download an image", Args: []string{"fw-download", absent, "--fw={blank}", "--progress"}, Want: noDevice},
			{
				Name: "download it in pieces of the drive's size", Args: []string{"fw-download", absent, "--fw={blank}", "--progress", "--xfer=4096"},
				Want: noDevice,
			},
			{Name: "an image that is not there", Args: []string{"fw-download", absent, "--fw={missing}", "--progress"}, Want: noDevice},
			{Name: "store for the next reset", Args: []string{"fw-commit", absent, "--slot=2", "--action=1"}, Want: noDevice},
			{Name: "go back to a slot", Args: []string{"fw-commit", absent, "--slot=1", "--action=2"}, Want: noDevice},
			{Name: "activate without a reset", Args: []string{"fw-commit", absent, "--slot=2", "--action=3"}, Want: noDevice},
			{Name: "reset the controller", Args: []string{"reset", absent}, Want: noDevice},
			{
				Name: "a slot that is no number", Args: []string{"fw-commit", absent, "--slot=x", "--action=1"},
				Want: Want{Usage, 1, "Expected byte argument for 'slot' but got 'x'!"},
			},
			{Name: "no device", Args: []string{"id-ctrl"}, Want: Want{Usage, 1, "id-ctrl: Invalid argument"}},
			{
				Name: "an option that does not exist", Args: []string{"id-ctrl", absent, "--nope"},
				Want: Want{Usage, 1, "id-ctrl: unrecognized option '--nope'"},
			},
			{Name: "a command that does not exist", Args: []string{"nope", absent}, Want: Want{Usage, 1, "ERROR: Invalid sub-command 'nope'"}},
		},
	})
}
