package simhost

// renderProc adds what the daemon reads of /proc.
func renderProc(t tree, s *state) {
	t.attr("proc/sys/kernel/random", "boot_id", s.BootID)
	t.attrs("proc/sys/kernel", "hostname", s.Spec.Name, "osrelease", "6.12.57+deb13-amd64", "ostype", "Linux")
	t.attr("proc", "cmdline", "BOOT_IMAGE=/boot/vmlinuz-6.12.57+deb13-amd64 root=UUID=6f4c3b7e ro quiet")
}
