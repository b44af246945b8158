package simhost

// renderDMI adds /sys/class/dmi/id.
func renderDMI(t tree, s *state) {
	const dir = "sys/devices/virtual/dmi/id"
	y, b := s.Spec.System, s.Spec.BIOS
	t.attrs(dir,
		"bios_vendor", b.Vendor, "bios_version", s.BIOS.SysfsVersion, "bios_date", "01/15/2026", "bios_release", "2.10",
		"sys_vendor", y.Vendor, "product_name", y.Product, "product_family", "ThinkSystem", "product_version", "06",
		"product_sku", "7Z73CTO1WW", "board_vendor", y.Vendor, "board_name", y.Product, "board_version", "06",
		"chassis_vendor", y.Vendor, "chassis_type", "23", "chassis_version", "06",
		"modalias", "dmi:bvn"+b.Vendor+":bvr"+s.BIOS.SysfsVersion+":")
	for _, name := range []string{"product_serial", "board_serial", "chassis_serial"} {
		t.secret(dir, name, y.Serial)
	}
	t.secret(dir, "product_uuid", y.UUID)
	t.link("sys/class/dmi/id", dir)
}
