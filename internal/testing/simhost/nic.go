package simhost

// nicState is the firmware of a ConnectX card. Its flash holds a running and a next image, so that a cut write never
// harms the running one.
type nicState struct {
	Running, Next flash
	// LinkDown takes the links down until the next activation, whichever firmware runs.
	LinkDown bool `json:",omitempty"`
	// VFs is the number of virtual functions of the first port.
	VFs int `json:",omitempty"`
	// Mode is that of a BlueField.
	Mode Mode `json:",omitempty"`
	// NV are the settings that have not their defaults, and FlashResets says that other firmware begins with none.
	NV          map[string]nvValue `json:",omitempty"`
	FlashResets bool               `json:",omitempty"`
}

// hasLink reports whether a port has a link. All cables of the machine lead to Ethernet switches.
func (n *nicState) hasLink(port int) bool {
	return !n.LinkDown && !n.Running.LinkDown && !n.Running.Recovery && n.isEthernet(port)
}

// isEthernet reports whether a port speaks Ethernet, so that the kernel makes an interface for it.
func (n *nicState) isEthernet(port int) bool {
	return n.nv(linkType(port), ethernet).Current == ethernet
}

func newNIC(n NIC) *nicState {
	f := flash{Version: n.Version, Digest: digest(BuildImage(NICImage, ImageOptions{Version: n.Version, PSID: n.PSID}))}
	return &nicState{Running: f, Next: f, VFs: n.VFs, Mode: n.Mode, FlashResets: n.FlashResets}
}

// activate makes the stored image run, if it is complete.
func (n *nicState) activate(linkDown bool) {
	if !n.Next.Torn {
		if n.FlashResets && n.Running.Digest != n.Next.Digest {
			n.NV = nil
		}
		n.Running = n.Next
	}
	n.LinkDown = linkDown
}

func (n *nicState) boot(b boot, need Activation) {
	switch {
	case b.refuse:
		n.Next = n.Running
		n.LinkDown = b.linkDown
	case b.activates(need):
		n.activate(b.linkDown)
	default:
		n.LinkDown = b.linkDown
	}
}

// settle is what a reset of the card, by itself or with its machine, does besides loading firmware: the virtual functions are
// those that are made afterwards, and settings that waited for a reset are in force.
func (n *nicState) settle(card NIC, vfs int) {
	n.VFs = vfs
	if card.NextMode != "" {
		n.Mode = card.NextMode
	}
}

// stored is the version on flash that a query shows: the running one if the next is incomplete.
func (n *nicState) stored() flash {
	if n.Next.Torn {
		return n.Running
	}
	return n.Next
}

func (n *nicState) describe(d *Device) {
	d.Running, d.RunningDigest = n.Running.Version, n.Running.Digest
	d.Stored, d.StoredDigest = n.stored().Version, n.stored().Digest
	d.Torn, d.LinkUp, d.VFs, d.Mode = n.Next.Torn, d.Present && n.hasLink(0) && n.hasLink(1), n.VFs, n.Mode
}
