package schedule

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// maxNamed bounds the nodes that a message names. It is said to each job that waits, and anew whenever it changes.
const maxNamed = 3

// aboutLost says which nodes report a job that is gone or has ended, and what frees their places; empty for none. It begins with a
// space.
func (p *pass) aboutLost(nodes []string) string {
	if len(nodes) == 0 {
		return ""
	}
	slices.Sort(nodes)
	var out []string
	for _, name := range nodes[:min(len(nodes), maxNamed)] {
		switch job := p.node(name).Runs; job {
		case "":
			out = append(out, name+" (held by a failed job)")
		default:
			out = append(out, fmt.Sprintf("%s (at work on %s)", name, job))
		}
	}
	if len(nodes) > maxNamed {
		out = append(out, "others")
	}
	reports := "report a job that is gone or has ended"
	if len(nodes) == 1 {
		reports = "reports a job that is gone or has ended"
	}
	return fmt.Sprintf(" Of them %s %s: wait for it, or release the node if it is held. Only if no daemon runs and the machine is idle, "+
		"delete the NodeFirmware (kubectl delete nfw %s).", enumerate(out), reports, nodes[0])
}

// aboutUnheard says that the places of nodes are kept until their daemons report; it begins with a space. Many nodes are not named,
// because they report one after the other.
func aboutUnheard(nodes []string, until time.Time) string {
	subject := "Nodes whose daemons have not reported since the operator started count too, until they do"
	remedy := "If they do not run, see why"
	if len(nodes) <= maxNamed {
		slices.Sort(nodes)
		subject = fmt.Sprintf("The daemons of %s have not reported since the operator started; these nodes count until they do", enumerate(nodes))
		if len(nodes) == 1 {
			subject = fmt.Sprintf("The daemon of %s has not reported since the operator started; the node counts until it does", nodes[0])
		}
		remedy = fmt.Sprintf("If none runs there any more, delete the NodeFirmware (kubectl delete nfw %s)", nodes[0])
	}
	return fmt.Sprintf(" %s, or until %s: the API server may have been restored from a backup made before a job started there. %s.",
		subject, clock(until), remedy)
}

// enumerate lists texts as a sentence does.
func enumerate(list []string) string {
	if n := len(list); n > 1 {
		return strings.Join(list[:n-1], ", ") + " and " + list[n-1]
	}
	return strings.Join(list, "")
}
