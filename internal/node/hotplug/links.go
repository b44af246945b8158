package hotplug

import (
	"context"
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
)

// errEnded says that the kernel's messages about links ended without a cause.
var errEnded = errors.New("the messages about links ended")

// listenToLinks reports a physical link that goes up or down.
func listenToLinks(ctx context.Context, subscribed, report func()) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // closes the socket, also of a subscription that failed
	updates := make(chan netlink.LinkUpdate, 16)
	cause := errEnded // written by the one goroutine that closes updates afterwards
	options := netlink.LinkSubscribeOptions{ErrorCallback: func(err error) { cause = err }}
	if err := netlink.LinkSubscribeWithOptions(updates, ctx.Done(), options); err != nil {
		return fmt.Errorf("subscribe to links: %w", err)
	}
	subscribed()
	states := map[int]netlink.LinkOperState{}
	for u := range updates {
		if u.Link.Type() != "device" {
			continue
		}
		a := u.Link.Attrs()
		if before, known := states[a.Index]; known && before != a.OperState {
			report()
		}
		states[a.Index] = a.OperState
	}
	return cause
}
