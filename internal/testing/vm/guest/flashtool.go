package guest

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/durable"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
)

// FlashTool is the name of a vendor's tool that this program plays: it "flashes" a device that has no firmware of its own.
const FlashTool = "labflash"

// FlashDir has a directory for each device that FlashTool knows. It is on the host's disk, and containers of the product have
// it under the same path.
const FlashDir = "/boot/lab-flash"

// FlashState is what FlashTool keeps of a device.
type FlashState struct {
	// Running is the version since the boot BootID, Stored the one that runs after the next.
	Running, Stored, BootID string
	// Begun and Ended count the writes. A device whose write began and did not end is broken.
	Begun, Ended int
}

// factoryVersion is what a device has that was never written.
const factoryVersion = "1.0.0"

// flashTool reads or writes a device: "labflash -d DEVICE show", "labflash -d DEVICE -i IMAGE [-a] write".
func flashTool(args []string) error {
	flags := flag.NewFlagSet(FlashTool, flag.ContinueOnError)
	device := flags.String("d", "", "device")
	image := flags.String("i", "", "image: the version, and the seconds that writing takes, on a line each")
	activate := flags.Bool("a", false, "run the image at once")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *device == "" || strings.ContainsAny(*device, "/\x00") {
		return fmt.Errorf("%q is not a device", *device)
	}
	boot, err := sysfs.BootID(os.DirFS("/"))
	if err != nil {
		return err
	}
	d := flashDevice{filepath.Join(FlashDir, *device), boot}
	switch flags.Arg(0) {
	case "show":
		s, err := d.read()
		if err != nil {
			return err
		}
		return json.NewEncoder(os.Stdout).Encode(s)
	case "write":
		return d.write(*image, *activate)
	}
	return fmt.Errorf("unknown command %q", flags.Arg(0))
}

// flashDevice is a device as its directory, in the boot of this id.
type flashDevice struct{ dir, boot string }

func (d flashDevice) read() (FlashState, error) {
	s := FlashState{Running: factoryVersion, Stored: factoryVersion, BootID: d.boot}
	raw, err := os.ReadFile(filepath.Join(d.dir, "state.json"))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return s, nil
	case err != nil:
		return s, err
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		return s, fmt.Errorf("read device: %w", err)
	}
	if s.BootID != d.boot {
		s.Running, s.BootID = s.Stored, d.boot
	}
	return s, nil
}

func (d flashDevice) save(s FlashState) error {
	raw, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(d.dir, 0o755); err != nil {
		return err
	}
	return durable.WriteFile(durable.OS{}, filepath.Join(d.dir, "state.json"), raw)
}

// flashSteps is in how many pieces an image is written.
const flashSteps = 100

func (d flashDevice) write(image string, activate bool) error {
	raw, err := os.ReadFile(image)
	if err != nil {
		return err
	}
	var version string
	var seconds int
	if _, err := fmt.Fscan(bytes.NewReader(raw), &version, &seconds); err != nil {
		return fmt.Errorf("read image: %w", err)
	}
	s, err := d.read()
	if err != nil {
		return err
	}
	s.Begun++
	if err := d.save(s); err != nil {
		return err
	}
	for i := 1; i <= flashSteps; i++ {
		<-time.After(time.Duration(seconds) * time.Second / flashSteps)
		fmt.Printf("writing %d%%\n", i)
	}
	s.Ended++
	s.Stored = version
	if activate {
		s.Running = version
	}
	if err := d.save(s); err != nil {
		return err
	}
	fmt.Println("done")
	return nil
}
