package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/nodefirmware/node-firmware-operator/pkg/luks"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// Locks reads what opens the encrypted disks that carry this host, by device. Config.Uses may implement it.
type Locks interface {
	// Without a TPM nothing is sealed to one, and tpm is false.
	Locks(ctx context.Context) (headers map[string]luks.Header, tpm bool, err error)
}

// locked returns why the job must not change the registers of the TPM that its firmware is measured into, nil when it may; again is true
// when that may pass. What cannot be read is not known to be open. Where the policy does not ask, the message of ret says it, and the job goes
// on. It notes whether a person may have to open a disk at the next boot.
func (x *execution) locked(ctx context.Context, ret *step.Returned) (failure *step.Failure, again bool) {
	l, ok := x.cfg.Uses.(Locks)
	if !ok || x.job.Record.Wrote() {
		return nil, false
	}
	why := ""
	headers, tpm, err := l.Locks(ctx)
	if err != nil {
		why, x.attended = err.Error(), true
	}
	for _, device := range slices.Sorted(maps.Keys(headers)) {
		x.attended = x.attended || !headers[device].Unattended(x.measured)
		if lost := headers[device].Lost(x.measured); lost != "" && why == "" {
			why = fmt.Sprintf("of the encrypted disk %s after the reboot %s", device, lost)
		}
	}
	switch {
	case why == "" || !tpm || len(x.measured) == 0:
		return nil, false
	case !x.job.UnlockRequired:
		x.logger().Warn("The update may leave the node at a prompt for a passphrase, and its policy does not require Unlock", "job", x.job.Name, "why", why)
		ret.Message = why
		return nil, false
	}
	return &step.Failure{Reason: step.UnlockUnavailable, Message: fmt.Sprintf("nothing was changed, because the rollout policy requires Unlock: %s. Add a way "+
		"to open the disk that does not depend on the firmware, such as clevis with tang; or be at the console when the node boots, and take Unlock from "+
		"spec.require of the policy", why)}, err != nil
}
