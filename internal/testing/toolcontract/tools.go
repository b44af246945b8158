package toolcontract

// Tools are all tools of the contract that vendors make.
func Tools() []Tool { return []Tool{Mstflint(), Mstfwreset(), Mstconfig()} }
