package quarantine

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

const (
	// MaxSize bounds the entries of one source, in bytes of JSON, so that the object stays under 256 KiB with its spec, its images
	// and the bookkeeping of the API server. As many entries as the list may have fit, where their names are of the usual lengths.
	MaxSize = 96 << 10
	// shortMessage is how short the message of a new entry becomes where room is scarce, in bytes.
	shortMessage = 96
	// maxRequest is how long a request to lift or to confirm may be. Every entry repeats it, so its place is kept free: nothing
	// may go because a person writes a longer text.
	maxRequest = 128
)

// fit leaves of the entries what the source has room for. They are in the order in which they get it.
//
// Nothing goes that the source lists already and that decides something, because the job that reported it may be gone: no entry,
// no report that keeps an image from the nodes of its policy, no lift. What is new and does not fit is still reported by its job,
// which is not deleted before a source lists it (see Recorded). Of an image that is quarantined for the fleet one report is
// enough; the others only say more.
func fit(entries []v1alpha1.QuarantinedImage, known map[key]v1alpha1.QuarantinedImage) []v1alpha1.QuarantinedImage {
	total := 0
	for _, e := range entries {
		total += size(e)
	}
	if total <= MaxSize {
		return entries
	}
	room := MaxSize
	var out []v1alpha1.QuarantinedImage
	for _, e := range entries {
		was, is := known[key{e.Digest, e.Model}]
		least := essence(e, was)
		cost := size(least)
		if !is && cost > room {
			break // whatever follows is younger
		}
		room -= cost
		out = append(out, least)
	}
	for i := range out {
		room -= extend(&out[i], entries[i], room)
	}
	return out
}

// essence is the entry without what may go. Was is what the source lists now, zero for nothing.
func essence(e, was v1alpha1.QuarantinedImage) v1alpha1.QuarantinedImage {
	all := e.Reports
	first := func(r v1alpha1.QuarantineReport) bool { return r.Job == all[0].Job }
	had := func(r v1alpha1.QuarantineReport) bool {
		return slices.ContainsFunc(was.Reports, func(o v1alpha1.QuarantineReport) bool { return o.Job == r.Job })
	}
	e.Reports = nil
	for _, r := range all {
		if first(r) || e.Scope != v1alpha1.QuarantineFleet && had(r) {
			e.Reports = append(e.Reports, r)
		}
	}
	e.ReportsNotListed = int32(len(all) - len(e.Reports))
	var policies, lifted []string
	for _, p := range e.Policies {
		of := func(r v1alpha1.QuarantineReport) bool { return r.Policy == p }
		if e.Scope != v1alpha1.QuarantineFleet && (slices.ContainsFunc(e.Reports, of) || slices.Contains(was.Policies, p)) {
			policies = append(policies, p)
		}
	}
	for _, job := range e.Lifted {
		if slices.Contains(was.Lifted, job) {
			lifted = append(lifted, job)
		}
	}
	e.Policies, e.Lifted = policies, lifted
	e.Message = text.Clip(e.Message, max(shortMessage, len(was.Message))) // another source may list a longer one
	return e
}

// extend gives an entry back what went, as far as there is room, and returns the bytes that took.
func extend(e *v1alpha1.QuarantinedImage, full v1alpha1.QuarantinedImage, room int) (taken int) {
	before := size(*e)
	try := func(change func(*v1alpha1.QuarantinedImage)) {
		next := *e
		change(&next)
		if size(next)-before <= room {
			*e = next
		}
	}
	for _, job := range full.Lifted {
		if !slices.Contains(e.Lifted, job) {
			try(func(n *v1alpha1.QuarantinedImage) {
				n.Lifted = slices.Sorted(slices.Values(append(slices.Clone(n.Lifted), job)))
			})
		}
	}
	try(func(n *v1alpha1.QuarantinedImage) { n.Policies = full.Policies })
	for _, r := range full.Reports {
		listed := func(o v1alpha1.QuarantineReport) bool { return o.Job == r.Job }
		if slices.ContainsFunc(e.Reports, listed) {
			continue
		}
		try(func(n *v1alpha1.QuarantinedImage) {
			n.Reports = slices.DeleteFunc(slices.Clone(full.Reports), func(o v1alpha1.QuarantineReport) bool {
				same := func(x v1alpha1.QuarantineReport) bool { return x.Job == o.Job }
				return o.Job != r.Job && !slices.ContainsFunc(e.Reports, same)
			})
			n.ReportsNotListed--
		})
	}
	try(func(n *v1alpha1.QuarantinedImage) { n.Message = full.Message })
	return size(*e) - before
}

// size is how many bytes of JSON an entry takes at most, whatever is requested and however many reports it leaves out.
func size(e v1alpha1.QuarantinedImage) int {
	request := strings.Repeat("x", maxRequest)
	if e.Lift == nil || len(*e.Lift) < maxRequest {
		e.Lift = &request
	}
	if e.Confirm == nil || len(*e.Confirm) < maxRequest {
		e.Confirm = &request
	}
	e.ReportsNotListed = 1000
	out, _ := json.Marshal(e) // it holds nothing that cannot be written
	return len(out)
}
