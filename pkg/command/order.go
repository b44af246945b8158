package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// order is what a worker is to do. It comes through a pipe, and the worker starts nothing before the order is complete.
type order struct {
	// Argv is the command line, the path of the tool first.
	Argv []string
	// Base is the beginning of the paths of the write's files.
	Base string
	// MaxOutput bounds the output files.
	MaxOutput int64
	// Inhibit is the command that holds off a shutdown of the host, its path first; empty for none.
	Inhibit []string
	// HasImage says that the worker holds an image for the tool, as workerImageFD.
	HasImage bool
	// Writing is what is to be recorded.
	Writing Writing
}

// errNoOrder says that the process that started the worker has ended, or gave up before it sent the order.
var errNoOrder = errors.New("received no order; the tool was not started")

// send gives the order. What was sent cannot be taken back.
func (o order) send(to io.Writer) error {
	data, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("encode order: %w", err)
	}
	if _, err := to.Write(append(data, '\n')); err != nil {
		return fmt.Errorf("give order to worker: %w", err)
	}
	return nil
}

// receive waits for the order. The line end is its last byte, so that half an order is never taken for one.
func receive(from io.Reader) (order, error) {
	data, err := io.ReadAll(from)
	if err != nil {
		return order{}, fmt.Errorf("read order: %w", err)
	}
	if len(data) == 0 || data[len(data)-1] != '\n' {
		return order{}, errNoOrder
	}
	var o order
	if err := json.Unmarshal(data, &o); err != nil {
		return order{}, fmt.Errorf("decode order: %w", err)
	}
	return o, nil
}
