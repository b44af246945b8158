package rollout

import (
	"encoding/json"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

const (
	// maxStatus is the size in bytes of JSON from which on a status says less, so that the policy stays under 256 KiB. The ledger has
	// a bound of its own.
	maxStatus = 208 << 10
	// minMessage is how short the messages of the records become at most.
	minMessage = 64
	// maxHalted bounds the message of a halt. It is kept from pass to pass, so it must not depend on what else there is.
	maxHalted = 256
)

// shorten halves what each pass makes anew and only shows, the messages of the records, until the status is small enough.
func shorten(s *v1alpha1.RolloutPolicyStatus) {
	for limit := maxMessage / 2; limit >= minMessage && size(s) > maxStatus; limit /= 2 {
		for i := range s.Rollouts {
			if s.Rollouts[i].HaltedTime == nil {
				s.Rollouts[i].Message = text.Clip(s.Rollouts[i].Message, limit)
			}
		}
	}
}

func size(s *v1alpha1.RolloutPolicyStatus) int {
	out, _ := json.Marshal(s) // it holds nothing that cannot be written
	return len(out)
}
