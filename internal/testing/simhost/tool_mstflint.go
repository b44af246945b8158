package simhost

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// The exit codes of mstflint (flint/err_msgs.h).
const (
	flintFailed  = 1
	flintAborted = 7
)

var mstflintOptions = optionTable{
	"d": "device=", "device": "device=", "i": "image=", "image": "image=", "y": "yes", "yes": "yes", "no": "no",
	"qq": "qq", "skip_if_same": "skip_if_same", "s": "silent", "silent": "silent", "v": "version", "version": "version",
}

// mstflint 4.21.0 for cards with controlled firmware updates.
func mstflint(c *call) (int, error) {
	o, err := mstflintOptions.parse(c.argv[1:])
	if err != nil {
		c.printf("-E- Invalid switch \"%s\" is specified.\n", strings.Trim(strings.TrimPrefix(err.Error(), "unrecognized option "), "'"))
		return flintFailed, nil
	}
	if o.has("version") && len(o.args) == 0 {
		c.printf("mstflint, mstflint 4.21.0, Git SHA Hash: N/A\n")
		return 0, nil
	}
	if len(o.args) == 0 {
		c.printf("-E- No command found.\n")
		return flintFailed, nil
	}
	device, image := o.values["device"], o.values["image"]
	command := o.args[0]
	switch {
	case device == "" && image == "":
		c.printf("-E- Please specify either Device or Image.\n")
		return flintFailed, nil
	case device == "" && (command == "q" || command == "query" || command == "v" || command == "verify"):
		operation := map[byte]string{'q': "query", 'v': "verify"}[command[0]]
		return c.run("", operation, func() (int, error) { return c.flintImage(operation, image) })
	case device == "":
		c.printf("-E- Command \"%s\" requires device, but an image file was given.\n", command)
		return flintFailed, nil
	}
	nic, ok, err := c.findNIC(device)
	if err != nil {
		return 0, err
	}
	if !ok {
		c.printf("-E- Cannot open Device: %s. No such file or directory. MFE_CR_ERROR\n", device)
		return flintFailed, nil
	}
	switch command {
	case "q", "query":
		full := len(o.args) > 1 && o.args[1] == "full"
		return c.run(nic.Key, "query", func() (int, error) { return c.flintQuery(nic, full) })
	case "v", "verify":
		return c.run(nic.Key, "verify", func() (int, error) { return c.flintVerifyDevice(nic) })
	case "b", "burn":
		if image == "" {
			c.printf("-E- For burn command, Please specify image file.\n")
			return flintFailed, nil
		}
		return c.run(nic.Key, "write", func() (int, error) { return c.flintBurn(nic, image, o) })
	case "ri":
		if len(o.args) != 2 {
			c.printf("-E- Command \"ri\" requires 1 arguments, but %d arguments were given\n", len(o.args)-1)
			return flintFailed, nil
		}
		return c.run(nic.Key, "read", func() (int, error) { return c.flintRead(nic, o.args[1]) })
	case "ir", "image_reactivation":
		return c.run(nic.Key, "reactivate", func() (int, error) { return c.flintReactivate(nic) })
	}
	c.printf("Invalid command: %s\nNAME\n    MstFlint - Flash Interface\n", command)
	return flintFailed, nil
}

// findNIC finds the card of a PCI address, with or without domain. A card that does not answer is not found.
func (c *call) findNIC(device string) (NIC, bool, error) {
	s, err := c.m.view()
	if err != nil {
		return NIC{}, false, err
	}
	if strings.Count(device, ":") == 1 {
		device = "0000:" + device
	}
	for _, n := range s.Spec.NICs {
		for port := range n.Ports {
			if device == fmt.Sprintf("%s.%d", n.Slot, port) && s.present(n.Key) {
				return n, true, nil
			}
		}
	}
	return NIC{}, false, nil
}

func (c *call) flintQuery(n NIC, full bool) (int, error) {
	s, err := c.m.view()
	if err != nil {
		return 0, err
	}
	fw := s.NICs[n.Key]
	stored := fw.stored()
	c.printf("Image type:            FS4\n")
	c.printf("FW Version:            %s\n", stored.Version)
	if stored.Version != fw.Running.Version {
		c.printf("FW Version(Running):   %s\n", fw.Running.Version)
	}
	c.printf("FW Release Date:       15.1.2026\n")
	if full {
		c.printf("Part Number:           %s\n", n.PartNumber)
		c.printf("Description:           %s\n", n.Model)
	}
	c.printf("Product Version:       %s\n", stored.Version)
	c.flintRoms()
	guid, mac, psid := fmt.Sprintf("%016x", n.BaseGUID), fmt.Sprintf("%012x    ", n.BaseMAC), n.PSID
	if fw.Running.Recovery {
		guid, mac, psid = fmt.Sprintf("%-16s", "N/A"), fmt.Sprintf("%-16s", "N/A"), "N/A"
	}
	c.flintUIDs(guid, mac)
	c.printf("Image VSD:             N/A\nDevice VSD:            N/A\nPSID:                  %s\n", psid)
	c.printf("Security Attributes:   %s\n", flintSecurity(n))
	if full {
		c.printf("Default Update Method: fw_ctrl\n")
		if n.Secure {
			c.printf("Life cycle:            GA SECURED\nSecure Boot Capable:   Enabled\n")
		}
	}
	return 0, nil
}

func flintSecurity(n NIC) string {
	if n.Secure {
		return "secure-fw"
	}
	return "N/A"
}

func (c *call) flintRoms() {
	c.printf("Rom Info:              type=UEFI version=14.32.17 cpu=AMD64,AARCH64\n")
	c.printf("                       type=PXE version=3.7.300 cpu=AMD64\n")
}

func (c *call) flintUIDs(guid, mac string) {
	c.printf("Description:           UID                GuidsNumber\n")
	c.printf("%-18s     %s        4\n", "Base GUID:", guid)
	c.printf("%-18s     %s        4\n", "Base MAC:", mac)
}

// flintOpen reads an image file for flint, and prints why it cannot.
func (c *call) flintOpen(path string) (Image, []byte, bool) {
	data, err := os.ReadFile(path)
	if err != nil {
		c.printf("-E- Cannot open Image: %s. No such file or directory.\n", path)
		return Image{}, nil, false
	}
	img, err := ParseImage(data)
	if err != nil || img.Kind != NICImage {
		c.printf("-E- Cannot open Image: %s. No valid image found.\n", path)
		return Image{}, data, false
	}
	return img, data, true
}

func (c *call) flintImage(operation, path string) (int, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		c.printf("-E- Cannot open Image: %s. No such file or directory.\n", path)
		return flintFailed, nil
	}
	img, err := ParseImage(data)
	if operation == "verify" {
		return c.flintVerify(err == nil && img.Kind == NICImage)
	}
	if err != nil || img.Kind != NICImage {
		c.printf("-E- Failed to query image: %s. No valid image found.\n", path)
		return flintFailed, nil
	}
	c.printf("Image type:            FS4\nFW Version:            %s\nFW Release Date:       15.1.2026\n", img.Version)
	c.printf("Product Version:       %s\n", img.Version)
	c.flintRoms()
	c.flintUIDs(fmt.Sprintf("%-16s", "N/A"), fmt.Sprintf("%-16s", "N/A"))
	c.printf("Image VSD:             N/A\nDevice VSD:            N/A\nPSID:                  %s\n", img.PSID)
	c.printf("Security Attributes:   secure-fw\nSecurity Ver:          0\n")
	return 0, nil
}

func (c *call) flintVerifyDevice(n NIC) (int, error) {
	s, err := c.m.view()
	if err != nil {
		return 0, err
	}
	return c.flintVerify(!s.NICs[n.Key].Next.Torn)
}

func (c *call) flintVerify(whole bool) (int, error) {
	c.printf("\n     FS4 failsafe image\n\n")
	c.printf("     /0x00000018-0x0000001f (0x000008)/ (HW_POINTERS) - OK\n")
	c.printf("     /0x00000500-0x0000053f (0x000040)/ (TOOLS_AREA) - OK\n")
	if !whole {
		c.printf("     /0x00007000-0x0000a7ff (0x003800)/ (MAIN_CODE) - wrong CRC (exp:0x4d21, act:0x9b07)\n")
		c.printf("-E- FW image verification failed: Bad CRC. AN HCA DEVICE CAN NOT BOOT FROM THIS IMAGE.\n")
		return flintFailed, nil
	}
	c.printf("     /0x00007000-0x0000a7ff (0x003800)/ (MAIN_CODE) - OK\n")
	c.printf("\n-I- FW image verification succeeded. Image is bootable.\n\n")
	return 0, nil
}

func (c *call) flintBurn(n NIC, path string, o options) (int, error) {
	img, data, ok := c.flintOpen(path)
	if !ok {
		return flintFailed, c.refused(n.Key, "Write", Image{Digest: digest(data)}, "no valid image")
	}
	s, err := c.m.view()
	if err != nil {
		return 0, err
	}
	current := s.NICs[n.Key].stored().Version
	c.printf("\n    Current FW version on flash:  %s\n    New FW version:               %s\n", current, img.Version)
	if note := flintNote(current, img.Version); note != "" {
		c.printf("\n    Note: The new FW version is %s the current FW version on flash.\n", note)
		if note == "the same as" && o.has("skip_if_same") {
			c.printf("\n    Skipping burn because firmware versions match and --skip_if_same flag is set.\n")
			return 0, nil
		}
		if !c.flintAsk(o) {
			return flintAborted, nil
		}
	}
	c.printf("\n")
	if img.PSID != n.PSID {
		c.printf("\n-E- PSID mismatch. The PSID on flash (%s) differs from the PSID in the given image (%s).\n", n.PSID, img.PSID)
		return flintFailed, c.refused(n.Key, "Write", img, "PSID mismatch")
	}
	if fw := s.NICs[n.Key]; n.Secure && fw.stored() != fw.Running {
		c.printf("-E- Burning FS4 image failed: The firmware image was already updated on flash, pending reset.\n")
		return flintFailed, c.refused(n.Key, "Write", img, "pending reset")
	}
	const stage = "Writing Boot image component"
	written := flash{Version: img.Version, Digest: img.Digest, LinkDown: img.LinkDown, Recovery: img.Recovery}
	torn := written
	torn.Torn = true
	var keepErr error
	err = c.do(job{
		op:    Operation{Device: n.Key, Action: "Write", Version: img.Version, Digest: img.Digest, Bytes: len(data)},
		takes: s.Spec.WriteTime,
		progress: func(percent int) {
			if percent == 0 {
				c.printf("Initializing image partition -   OK\n")
				keepErr = c.m.keepImage(n.Key, data)
			}
			c.printf("\r%s - %3d%%", stage, percent)
		},
		begin:  func(s *state) { s.NICs[n.Key].Next = torn },
		finish: func(s *state) { s.NICs[n.Key].Next = written },
	})
	if errors.Is(err, errBusy) {
		c.printf("-E- Burning FS4 image failed: Failed to lock flash semaphore\n")
		return flintFailed, c.refused(n.Key, "Write", img, "busy")
	}
	if err := errors.Join(err, keepErr); err != nil {
		return 0, err
	}
	c.printf("\r%s -   OK\n-I- To load new FW run mstfwreset or reboot machine.\n", stage)
	return 0, nil
}

// flintAsk answers flint's question as a closed standard input does.
func (c *call) flintAsk(o options) bool {
	c.printf("\n Do you want to continue ? (y/n) [n] : ")
	switch {
	case o.has("yes"):
		c.printf("y\n")
		return true
	case o.has("no"):
		c.printf("n\n")
	default:
		c.printf("-E- Aborted by user\n")
	}
	return false
}

func flintNote(current, version string) string {
	switch {
	case current == version:
		return "the same as"
	case compareDotted(current, version) > 0:
		return "older than"
	}
	return ""
}
