package sysfs

import (
	"cmp"
	"errors"
	"io/fs"
	"path"
	"regexp"
	"slices"
)

// NVMeController is an NVMe controller: a drive of this machine, or one behind a network (sys/class/nvme/<name>/).
type NVMeController struct {
	Name string
	// Device is the PCI function, or what stands for the network (link device).
	Device Device
	// Model, Serial and FirmwareRev as the kernel read them when it found the drive (model, serial, firmware_rev). The
	// revision goes stale when the firmware changes: use it to find drives, never to decide what they run.
	Model, Serial, FirmwareRev string
	// SubsystemNQN names the NVM subsystem (subsysnqn).
	SubsystemNQN string
	// Subsystem is the kernel's name of that NVM subsystem, such as "nvme-subsys0"; empty where it shows none. The kernel gives
	// two controllers one subsystem only where they say that they are of one drive (sys/class/nvme-subsystem/<name>/<controller>).
	Subsystem string
	// State is "live" for a controller that processes commands (state); empty where the kernel does not show it.
	State string
	// Address on the transport, for PCI the function's (address).
	Address string
	// Transport is "pcie", or "tcp", "rdma", "fc" or "loop" where the drive is behind a network (transport).
	Transport string
	// Discovery controllers report where drives are and are no drives themselves (cntrltype; the name of the subsystem
	// on older kernels).
	Discovery bool
	// Namespaces in order of their ids.
	Namespaces []NVMeNamespace
	// Err says what of the controller could not be read.
	Err error
}

// NVMeNamespace is one namespace (sys/class/nvme/<controller>/<name>/).
type NVMeNamespace struct {
	// ID is the namespace id (nsid).
	ID int
	// WWID is the best of the ids below with its kind, as in "eui.0025385b01418be1" (wwid).
	WWID string
	// NGUID and EUI are hexadecimal digits with separators, all zero when the drive has none (nguid, eui).
	NGUID, EUI string
}

const nvmeClass = "sys/class/nvme"

// discoveryNQN is the well-known name of the discovery service (NVMe Base Specification 2.0, section 4.5).
const discoveryNQN = "nqn.2014-08.org.nvmexpress.discovery"

// namespaceName matches namespaces and, with native multipath, the paths to them: nvme0n1, nvme0c0n1.
var namespaceName = regexp.MustCompile(`^nvme\d+(c\d+)?n\d+$`)

// NVMeControllers lists the controllers in order of name, virtual functions left out.
func NVMeControllers(fsys fs.FS) ([]NVMeController, error) {
	names, err := list(fsys, nvmeClass)
	if err != nil {
		return nil, err
	}
	subsystems, err := nvmeSubsystems(fsys)
	if err != nil {
		return nil, err
	}
	var controllers []NVMeController
	for _, name := range names {
		dir, err := follow(fsys, path.Join(nvmeClass, name))
		if err != nil {
			return nil, err
		}
		if dir == "" {
			continue
		}
		c, ok := readController(fsys, dir)
		c.Subsystem = subsystems[c.Name]
		virtual := c.Device.Function != nil && c.Device.Function.Physical != nil
		if ok && !virtual {
			controllers = append(controllers, c)
		}
	}
	return controllers, nil
}

const nvmeSubsystemClass = "sys/class/nvme-subsystem"

// controllerName matches controllers.
var controllerName = regexp.MustCompile(`^nvme\d+$`)

// nvmeSubsystems are the kernel's subsystems by controller.
func nvmeSubsystems(fsys fs.FS) (map[string]string, error) {
	names, err := list(fsys, nvmeSubsystemClass)
	if err != nil {
		return nil, err
	}
	of := map[string]string{}
	for _, name := range names {
		dir, err := follow(fsys, path.Join(nvmeSubsystemClass, name))
		if err != nil {
			return nil, err
		}
		if dir == "" {
			continue
		}
		members, err := list(fsys, dir)
		if err != nil {
			return nil, err
		}
		for _, member := range members {
			if controllerName.MatchString(member) {
				of[member] = name
			}
		}
	}
	return of, nil
}

func readController(fsys fs.FS, dir string) (NVMeController, bool) {
	a := attributes{fsys: fsys, dir: dir}
	c := NVMeController{
		Name:  path.Base(dir),
		Model: a.text("model"), Serial: a.text("serial"), FirmwareRev: a.text("firmware_rev"),
		SubsystemNQN: a.text("subsysnqn"), Address: a.text("address"), Transport: a.text("transport"), State: a.text("state"),
	}
	c.Discovery = a.text("cntrltype") == "discovery" || c.SubsystemNQN == discoveryNQN
	device, err := follow(fsys, path.Join(dir, "device"))
	a.err = errors.Join(a.err, err)
	if device != "" {
		c.Device, err = deviceAt(fsys, device)
		a.err = errors.Join(a.err, err)
	}
	names, err := list(fsys, dir)
	a.err = errors.Join(a.err, err)
	for _, name := range names {
		if namespaceName.MatchString(name) {
			c.Namespaces = append(c.Namespaces, readNamespace(&a, name))
		}
	}
	slices.SortFunc(c.Namespaces, func(x, y NVMeNamespace) int { return cmp.Compare(x.ID, y.ID) })
	c.Err = a.err
	return c, !a.gone()
}

func readNamespace(a *attributes, name string) NVMeNamespace {
	n := NVMeNamespace{WWID: a.text(name + "/wwid"), NGUID: a.text(name + "/nguid"), EUI: a.text(name + "/eui")}
	if id := a.number(name + "/nsid"); id != nil {
		n.ID = *id
	}
	return n
}
