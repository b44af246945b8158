package devlink

// Usable returns an error if the kernel does not offer devlink.
func (d *Driver) Usable() error {
	c, err := d.dial.open()
	if err != nil {
		return err
	}
	return c.Close()
}
