// Package uplink reads through which hardware a host reaches its gateways, and whether they answer.
package uplink
