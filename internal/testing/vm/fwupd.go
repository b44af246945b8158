package vm

// busConfig is a system bus that anybody on the machine may use: fwupd and its client talk over it.
const busConfig = `<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>system</type>
  <listen>unix:path=/run/dbus/system_bus_socket</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow user="*"/>
    <allow own="*"/>
    <allow send_destination="*" eavesdrop="true"/>
    <allow eavesdrop="true"/>
  </policy>
</busconfig>
`

// fwupdConfig enables fwupd's test device, whose images are unsigned. The daemon never ends by itself: the device lives
// in its memory.
const fwupdConfig = `[fwupd]
TestDevices=true
OnlyTrusted=false
IdleTimeout=0
[test]
WriteDelay=3000
`

// fwupdProfile makes the machine's BIOS of fwupd's test device, so that a vendor's tool is driven through a tool profile.
const fwupdProfile = `name: fwupd-test
version: "1"
match:
  class: BIOS
  support: Vendor
  vendors: [NodeFirmware]
inspect:
  argv: [fwupdmgr, get-devices, --json]
  timeout: 1m
  exits: {ok: [0]}
  format: json
  fields:
    running: {path: [Devices, {where: [Plugin], is: test}, Version]}
write:
  argv: [fwupdmgr, local-install, "{{image.path}}", --no-reboot-check, --allow-older, --assume-yes, --json]
  timeout: 5m
  exits:
    ok: [0]
    already: [2]
    rejected: [3]
    fail: {1: "fwupd failed"}
activation: None
versionFormat: Dotted
rollback: None
`
