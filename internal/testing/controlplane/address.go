package controlplane

import (
	"fmt"
	"math/rand/v2"
	"net"
)

// FreeAddress returns a local address on which nothing listens, for a process that takes its address as a setting. Its port is below those that
// Linux gives to connections and to listeners that name none, so that only another caller may take it first.
func FreeAddress() (address string, err error) {
	const first, ports, attempts = 10_000, 20_000, 100
	for range attempts {
		var listener net.Listener
		if listener, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", first+rand.IntN(ports))); err == nil {
			return listener.Addr().String(), listener.Close()
		}
	}
	return "", fmt.Errorf("find a free port: %w", err)
}
