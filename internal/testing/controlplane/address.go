package controlplane

import (
	"fmt"
	"net"
)

// FreeAddress returns a local address on which nothing listens, for a process that takes its address as a setting.
// Another process may take it first.
func FreeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	defer listener.Close()
	return listener.Addr().String(), nil
}
