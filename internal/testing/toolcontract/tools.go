package toolcontract

import "github.com/nodefirmware/node-firmware-operator/pkg/vendortool"

// Tools are all tools of the contract that vendors make.
func Tools() []Tool {
	return append([]Tool{Mstflint(), Mstfwreset(), Mstconfig(), NVMe(), Fwupdtool()}, SG()...)
}

// known adds to a vendor's tool how its version is read, as the daemon does.
func known(t Tool) Tool {
	vendors, _ := vendortool.Named(t.Name)
	t.VersionArgs, t.VersionText = vendors.VersionArgs, vendors.VersionText
	return t
}
