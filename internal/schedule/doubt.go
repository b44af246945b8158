package schedule

import (
	"fmt"
	"maps"
	"slices"

	"github.com/nodefirmware/node-firmware-operator/internal/wayout"
)

// enoughAcquitted is how many nodes that an update left unhealthy keep it from the next ones though no image is blamed. A drive may
// die at any reboot; two such nodes at once may have a cause that no complaint names.
const enoughAcquitted = 2

// doubt is what keeps an update from further nodes of a pool for a while, and ends by itself or with a node that is repaired.
type doubt struct {
	Target
	message string
}

// loadDoubts finds the updates of the pools that are in doubt. It must come after the ledgers are cleaned.
func (p *pass) loadDoubts() {
	for _, o := range p.pools {
		acquitted := map[Target][]*Job{}
		for _, entry := range o.out.Ledger {
			j := p.jobs[entry.UID]
			for _, e := range targets(j.Edges) {
				switch {
				case e.Verdict == OnTrial:
					o.doubts = append(o.doubts, doubt{e.Target, fmt.Sprintf("Job %s on node %s restores the previous firmware to see whether the update of %s "+
						"is at fault; no further node begins meanwhile. What it waits for: kubectl describe firmwarejob/%s.", j.Name, j.Node, e.Target, j.Name)})
				case e.Verdict == Acquitted && j.State == Held:
					acquitted[e.Target] = append(acquitted[e.Target], j)
				}
			}
		}
		for _, t := range slices.SortedFunc(maps.Keys(acquitted), Target.Compare) {
			if held := acquitted[t]; len(held) >= enoughAcquitted {
				o.doubts = append(o.doubts, doubt{t, fmt.Sprintf("The update of %s left nodes %s and %s unhealthy. No image is blamed for that, but it may have "+
					"changed what nobody sees. No further node begins until one of them is repaired, and tried again or released: %s", t, held[0].Node, held[1].Node, wayout.Retry(held[0].Node))})
			}
		}
	}
}

// doubtOf is the first doubt about the image of the target; empty for none.
func (o *pool) doubtOf(t Target) string {
	if at := slices.IndexFunc(o.doubts, func(d doubt) bool { return d.sameImage(t) }); at >= 0 {
		return o.doubts[at].message
	}
	return ""
}

// doubtful keeps the job while one of its updates is in doubt. A person may try again on a node that is held already.
func (p *pass) doubtful(c *candidate) (Reason, string) {
	if c.node.repeats(c.job) {
		return "", ""
	}
	for _, e := range c.job.Edges {
		if why := c.pool.doubtOf(e.Target); why != "" {
			return WaitingForWave, why
		}
	}
	return "", ""
}
