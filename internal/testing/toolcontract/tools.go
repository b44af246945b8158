package toolcontract

// Tools are all tools of the contract that vendors make.
func Tools() []Tool {
	return append([]Tool{Mstflint(), Mstfwreset(), Mstconfig(), NVMe(), Fwupdtool()}, SG()...)
}
