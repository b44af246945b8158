package simhost

import "errors"

// flintReactivate makes the running image the stored one again. Like the real tool it can only do that for the running
// image: the one before is lost once another was activated.
func (c *call) flintReactivate(n NIC) (int, error) {
	s, err := c.m.view()
	if err != nil {
		return 0, err
	}
	fw := s.NICs[n.Key]
	if fw.Next == fw.Running {
		return c.flintKept(n, "FW already reactivated")
	}
	err = c.do(job{
		op:     Operation{Device: n.Key, Action: "Reactivate", Version: fw.Running.Version, Digest: fw.Running.Digest},
		finish: func(s *state) { s.NICs[n.Key].Next = s.NICs[n.Key].Running },
	})
	if errors.Is(err, errBusy) {
		return c.flintKept(n, "FW ICMD related error")
	}
	if err != nil {
		return 0, err
	}
	c.printf("\n-I- FW Image Reactivation succeeded.\n\n")
	return 0, nil
}

func (c *call) flintKept(n NIC, why string) (int, error) {
	c.printf("-E- Failed to execute image reactivation on device %s.0. Error: %s.\n", n.Slot, why)
	return flintFailed, nil
}
