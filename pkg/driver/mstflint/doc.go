// Package mstflint is the driver of NVIDIA (Mellanox) network adapters: it runs mstflint to read and burn a card and
// mstfwreset to activate what was burned.
package mstflint
