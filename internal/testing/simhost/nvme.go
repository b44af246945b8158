package simhost

// nvmeState is the firmware of an NVMe drive: slots, the active one and the one the next activation makes active.
type nvmeState struct {
	// Slots from slot 1; an empty version is an empty slot.
	Slots []flash
	// Active and Next are slot numbers; Next is 0 when nothing waits.
	Active, Next int
	// Running is the firmware that runs: what the active slot held when it became active.
	Running flash
	// SysfsVersion is the revision the kernel read when it probed the drive.
	SysfsVersion string
}

func newNVMe(n NVMe) *nvmeState {
	f := flash{Version: n.Version, Digest: digest(BuildImage(NVMeImage, ImageOptions{Version: n.Version, Model: n.Model}))}
	d := &nvmeState{Slots: make([]flash, n.Slots), Active: 1, Running: f, SysfsVersion: n.Version}
	d.Slots[0] = f
	return d
}

// activate makes the next slot active, when its image is whole.
func (d *nvmeState) activate() {
	if d.Next != 0 && !d.Slots[d.Next-1].Torn {
		d.Active, d.Running = d.Next, d.Slots[d.Next-1]
	}
	d.Next = 0
}

func (d *nvmeState) boot(b boot, need Activation) {
	if b.refuse {
		d.Next = 0
	} else if b.activates(need) {
		d.activate()
	}
	if !b.stale {
		d.SysfsVersion = d.Running.Version
	}
}

func (d *nvmeState) stored() flash {
	if d.Next != 0 && !d.Slots[d.Next-1].Torn {
		return d.Slots[d.Next-1]
	}
	return d.Running
}

func (d *nvmeState) describe(out *Device) {
	out.Running, out.RunningDigest = d.Running.Version, d.Running.Digest
	out.Stored, out.StoredDigest = d.stored().Version, d.stored().Digest
	out.ActiveSlot = d.Active
	for _, s := range d.Slots {
		out.Slots = append(out.Slots, s.Version)
		out.Torn = out.Torn || s.Torn
	}
}

func (s *state) nvme(key string) NVMe {
	for _, n := range s.Spec.NVMe {
		if n.Key == key {
			return n
		}
	}
	return NVMe{}
}
