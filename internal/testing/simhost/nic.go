package simhost

// nicState is the firmware of a ConnectX card. Its flash holds a running and a next image, so that a cut write never
// harms the running one.
type nicState struct {
	Running, Next flash
	// LinkDown takes the links down until the next activation, whichever firmware runs.
	LinkDown bool `json:",omitempty"`
}

// hasLinks reports whether the ports with a cable have a link.
func (n *nicState) hasLinks() bool { return !n.LinkDown && !n.Running.LinkDown && !n.Running.Recovery }

func newNIC(n NIC) *nicState {
	f := flash{Version: n.Version, Digest: digest(BuildImage(NICImage, ImageOptions{Version: n.Version, PSID: n.PSID}))}
	return &nicState{Running: f, Next: f}
}

// activate makes the stored image run, if it is complete.
func (n *nicState) activate(linkDown bool) {
	if !n.Next.Torn {
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
	d.Torn, d.LinkUp = n.Next.Torn, d.Present && n.hasLinks()
}

func (s *state) nic(key string) NIC {
	for _, n := range s.Spec.NICs {
		if n.Key == key {
			return n
		}
	}
	return NIC{}
}
