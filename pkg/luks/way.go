package luks

import (
	"fmt"
	"slices"
	"strings"
)

// Way is what a token needs to open its device.
type Way struct {
	// Name says which token it is, for people.
	Name string
	// PCRs are the registers of the TPM that must have the values of the enrolment, or signed ones.
	PCRs []int
	// Policy says that a policy which the header does not hold names the registers (pcrlock), or nobody knows what does: any may be one.
	Policy bool
	// Attended says that a person has to be there: for a PIN, a security key or a recovery key.
	Attended bool
	// Shares is how many of the ways in Of have to work; 0 where the secret is not shared.
	Shares int
	Of     []Way
}

// notUnderstood is a way that opens its device as long as nothing changes: it may be bound to the TPM.
var notUnderstood = Way{Policy: true}

// opens reports whether the way works after the registers have changed, where a person is there or not.
func (w Way) opens(changed []int, person bool) bool {
	if w.Shares > 0 {
		works := 0
		for _, of := range w.Of {
			if of.opens(changed, person) {
				works++
			}
		}
		return works >= w.Shares
	}
	broken := w.Policy && len(changed) > 0 || slices.ContainsFunc(w.PCRs, func(pcr int) bool { return slices.Contains(changed, pcr) })
	return !broken && (person || !w.Attended)
}

// opens reports whether anything opens the device after the registers have changed.
func (h Header) opens(changed []int, person bool) bool {
	return person && h.Keys > 0 || slices.ContainsFunc(h.Ways, func(w Way) bool { return w.opens(changed, person) })
}

// Unattended reports whether the device is opened without a person after registers of the TPM have changed, as far as the header says.
func (h Header) Unattended(changed []int) bool { return h.opens(changed, false) }

// Lost says what a change of registers of the TPM takes from the device, for people; empty where it is opened as before. A passphrase is
// no second way for a boot that nobody watches: whether it is one, or a key file, the header does not say.
func (h Header) Lost(changed []int) string {
	what, person := "nothing would open it", true
	switch {
	case h.opens(nil, true) && !h.opens(changed, true):
	case h.opens(nil, false) && !h.opens(changed, false):
		what, person = "it would be opened only by a person at the console, with a passphrase or recovery key", false
	default:
		return ""
	}
	var by []string
	for _, w := range h.Ways {
		if w.opens(nil, person) && !w.opens(changed, person) {
			by = append(by, w.Name)
		}
	}
	return fmt.Sprintf("%s, because %s depends, as far as is known, on PCRs of the TPM that change (%s)", what, strings.Join(by, " and "), numbers(changed))
}

func numbers(pcrs []int) string {
	return strings.Trim(strings.Join(strings.Fields(fmt.Sprint(pcrs)), ", "), "[]")
}
