package controlplane

import (
	"fmt"
	"net"
)

// FreeAddress returns an address of this machine that nothing listens on, for a process that is told where to listen.
// Another process can take it before.
func FreeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	defer listener.Close()
	return listener.Addr().String(), nil
}
