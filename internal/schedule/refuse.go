package schedule

import (
	"fmt"
	"slices"
)

// refusal is why a job must not be admitted even if the budget has room, with a message for people. The zero refusal means
// that it may be.
type refusal struct {
	reason  Reason
	message string
}

// refuse finds the queued jobs that must not be admitted. A cancelled job may be admitted: it ends without doing anything.
func (p *pass) refuse() {
	for i := range p.facts.Jobs {
		j := &p.facts.Jobs[i]
		if j.State != Queued {
			continue
		}
		if r := refusalOf(j, p.node(j.Node)); r.reason != "" {
			p.refusals[j.UID] = r
		}
	}
}

func (p *pass) refused(j *Job) bool { return p.refusals[j.UID].reason != "" }

// refusalOf is why a job must not be admitted to its node, which a failed job may hold.
func refusalOf(j *Job, n *node) refusal {
	held := len(n.held) > 0
	switch {
	case j.Steps:
		return stepsRefusal(j, n, held)
	case j.Quarantined != nil:
		return quarantineRefusal(*j.Quarantined)
	case j.Unlisted != nil:
		return rollbackRefusal(*j.Unlisted)
	}
	return healthRefusal(j, n, held)
}

// stepsRefusal refuses steps on a machine that the daemon has not scanned, because it is not known what they would run on.
// On a node that a failed job holds they are always admitted: they may repair it.
func stepsRefusal(j *Job, n *node, held bool) refusal {
	if held || n.Scanned {
		return refusal{}
	}
	return refusal{NodeNotReady, fmt.Sprintf("The daemon has not scanned node %s yet, so no steps are run there; check that its pod "+
		"of the DaemonSet firmware-daemon is running.", j.Node)}
}

func quarantineRefusal(q QuarantinedUpdate) refusal {
	return refusal{Quarantined, fmt.Sprintf("Version %s for device %s is quarantined: %s. Select another version, or lift the quarantine: %s",
		q.Version, q.Device, q.Why, q.Lift)}
}

func rollbackRefusal(u UnlistedRollback) refusal {
	return refusal{ImageNotFound, fmt.Sprintf("No FirmwareSource lists the rollbackDigest of device %s (%s) as an image of version %s for its "+
		"model and board, so nothing is flashed, because it could not be rolled back safely. List it there, or create the job again without "+
		"rollbackDigest.", u.Device, u.Digest, u.Version)}
}

// healthRefusal refuses an update of a device that a job left unhealthy, and any update that would take over a held node with
// such a device: it would return the node to service.
func healthRefusal(j *Job, n *node, held bool) refusal {
	for _, d := range n.Unhealthy {
		if held || slices.Contains(j.Devices, d.Name) {
			return refusal{DeviceUnhealthy, fmt.Sprintf("Job %s left device %s unhealthy. Repair it, then set spec.requests.retry of "+
				"nodefirmware/%s to a new value; a job of type Steps may run before.", d.Job, d.Name, j.Node)}
		}
	}
	return refusal{}
}
