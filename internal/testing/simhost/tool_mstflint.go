package simhost

import (
	"bytes"
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
	if len(c.argv) == 1 {
		c.printf("No options found. \n")
		return flintFailed, nil
	}
	o, err := mstflintOptions.parse(c.argv[1:])
	if err != nil {
		c.printf("%s", flintHelp)
		return c.fail(flintFailed, "mstflint: %s\n", strings.Replace(err.Error(), " '", " `", 1))
	}
	if o.has("version") && len(o.args) == 0 {
		c.printf("mstflint, mstflint 4.21.0, Git SHA Hash: N/A\n")
		return 0, nil
	}
	if len(o.args) == 0 {
		c.printf("No command found. \n")
		return flintFailed, nil
	}
	command, known := flintCommands[o.args[0]]
	device, image := o.values["device"], o.values["image"]
	switch {
	case !known:
		c.printf("Invalid command: %s\n%s", o.args[0], flintHelp)
		return flintFailed, nil
	case command == "ri" && len(o.args) != 2:
		c.printf("-E- Command \"ri\" requires 1 arguments, but %d arguments were given\n", len(o.args)-1)
		return flintFailed, nil
	case command == "burn" && (device == "" || image == ""):
		c.printf("-E- Command \"burn\" requires both image and device to be specified.\n")
		return flintFailed, nil
	case device == "" && image == "":
		c.printf("-E- Please specify either Device or Image.\n")
		return flintFailed, nil
	case device == "" && (command == "query" || command == "verify"):
		return c.run("", command, func() (int, error) { return c.flintImage(command, image) })
	case device == "":
		c.printf("-E- Command \"%s\" requires device, but an image file was given.\n", command)
		return flintFailed, nil
	}
	return c.flintDevice(command, device, image, o)
}

const flintHelp = "NAME\n    MstFlint - Flash Interface\n\nSYNOPSIS\n    MstFlint [OPTIONS] <command> [Parameters]\n"

// flintCommands are the names that the parser knows, and what they stand for. The help text has a name that it does not know:
// image_reactivate.
var flintCommands = map[string]string{
	"q": "query", "query": "query", "v": "verify", "verify": "verify", "b": "burn", "burn": "burn", "ri": "ri",
	"ir": "image_reactivation", "image_reactivation": "image_reactivation",
}

// flintDevice runs a command on a card. An image file is opened before the card is.
func (c *call) flintDevice(command, device, image string, o options) (int, error) {
	if command == "burn" {
		if _, ok := c.flintFile(image); !ok {
			return flintFailed, nil
		}
	}
	nic, why, err := c.openNIC(device)
	if err != nil {
		return 0, err
	}
	if why != "" {
		c.printf("-E- Cannot open Device: %s. %s. MFE_CR_ERROR\n", device, why)
		return flintFailed, nil
	}
	switch command {
	case "query":
		full := len(o.args) > 1 && o.args[1] == "full"
		return c.run(nic.Key, "query", func() (int, error) { return c.flintQuery(nic, full) })
	case "verify":
		return c.run(nic.Key, "verify", func() (int, error) { return c.flintVerifyDevice(nic) })
	case "burn":
		return c.run(nic.Key, "write", func() (int, error) { return c.flintBurn(nic, image, o) })
	case "ri":
		return c.run(nic.Key, "read", func() (int, error) { return c.flintRead(nic, o.args[1]) })
	}
	return c.run(nic.Key, "reactivate", func() (int, error) { return c.flintReactivate(nic) })
}

// flintFile reads an image file, and prints why it cannot.
func (c *call) flintFile(path string) ([]byte, bool) {
	data, err := os.ReadFile(path)
	switch {
	case err != nil:
		c.printf("-E- Cannot open Image: %s. Can not open file \"%s\" - %s\n", path, path, osReason(err))
		return nil, false
	case len(data)%4 != 0:
		c.printf("-E- Cannot open Image: %s. Image size should be 4-bytes aligned. Make sure file %s is in the right format (binary image)\n",
			path, path)
		return nil, false
	}
	return data, true
}

// openNIC finds a card and opens it as the tools of the package do: by writing to its configuration space, which a locked down
// kernel refuses. The text says why it is not open.
func (c *call) openNIC(device string) (NIC, string, error) {
	nic, ok, err := c.findNIC(device)
	if err != nil || !ok {
		return NIC{}, "No such file or directory", err
	}
	s, err := c.m.view()
	if err == nil && s.Spec.Lockdown != "" {
		_, err = c.fail(0, "write counter to semaphore: Operation not permitted\n")
		return NIC{}, "Operation not permitted", err
	}
	return nic, "", err
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
		for _, f := range n.functions() {
			if device == f.Address && s.present(n.Key) {
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

// flintOpen reads an image for a burn, and prints why it cannot.
func (c *call) flintOpen(path string) (Image, []byte, bool) {
	data, ok := c.flintFile(path)
	if !ok {
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
	data, ok := c.flintFile(path)
	if !ok {
		if operation == "verify" {
			c.printf("-E- FW image verification failed: No valid FS4 image found.Check the flash parameters, if specified.." +
				"AN HCA DEVICE CAN NOT BOOT FROM THIS IMAGE")
		}
		return flintFailed, nil
	}
	img, err := ParseImage(data)
	if operation == "verify" {
		if !bytes.HasPrefix(data, []byte(imageMagic)) {
			c.printf("-E- FW image verification failed: No valid image found. AN HCA DEVICE CAN NOT BOOT FROM THIS IMAGE.\n")
			return flintFailed, nil
		}
		return c.flintVerify(err == nil && img.Kind == NICImage)
	}
	if err != nil || img.Kind != NICImage {
		c.printf("-E- Failed to query image: %s. No valid image found\n", path)
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
