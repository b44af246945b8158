package lab

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/simhost"
)

// The link types of the demo, with the numbers by which a card knows them. A card takes both, and with the wrong one it has no link: the cables
// lead to Ethernet switches.
const (
	wrongLink    v1alpha1.LinkType = "InfiniBand"
	firstPort                      = "LINK_TYPE_P1"
	toEthernet                     = "2"
	toInfiniBand                   = firstPort + "=1"
)

// SettingsReport is the outcome of the settings of the first act, and of a value that takes a link down.
type SettingsReport struct {
	// Result of that value: RolledBack, Quarantined or Failed, as that of a CutOffReport.
	Result string `json:"result"`
	// Nodes on which the settings of the first act are in force.
	Nodes int `json:"nodes"`
	// RolledBack is how many nodes got the value and have what they had before, and Node which one.
	RolledBack int    `json:"rolledBack"`
	Node       string `json:"node,omitempty"`
	// DurationSeconds from the change of the template until the settings were quarantined everywhere and every node in service.
	DurationSeconds float64 `json:"durationSeconds"`
}

// wrongSetting declares a link type that takes the link of a card down. It watches that the first node gets back what it had by itself, the
// settings are quarantined and the other nodes are spared. In the end it restores the template.
func (l *Lab) wrongSetting(ctx context.Context, o DemoOptions, list []target) (*SettingsReport, error) {
	r := &SettingsReport{Result: actFailed}
	cx7 := list[2]
	told := func(op simhost.Operation) bool { return strings.Contains(op.Detail, toInfiniBand) }
	before, err := l.got(cx7.keys[0], told)
	if err != nil {
		return r, err
	}
	if err := l.declare(ctx, policy(1)); err != nil {
		return r, fmt.Errorf("declare rollout policy: %w", err)
	}
	l.say("\nDeclaring linkType %s for the second NIC of %d nodes, one at a time. It is a value that the NIC takes, and with which it has no link:\n"+
		"the cable leads to an Ethernet switch.", wrongLink, len(l.Nodes))
	began := time.Now()
	wrong, err := l.editLink(ctx, list, cx7.rule, wrongLink)
	if err != nil {
		return r, err
	}
	if err := l.untilQuarantined(ctx, newView(o.Screen, began), list, wrong); err != nil {
		return r, err
	}
	r.DurationSeconds = time.Since(began).Seconds()
	now, err := l.got(cx7.keys[0], told)
	if err := errors.Join(err, r.judge(l.Nodes, list, before, now)); err != nil {
		return r, err
	}
	if r.Node != "" {
		l.say("%s has the settings again that it had, linkType %s is quarantined for this model, and the other %d nodes never got it.\n"+
			"Restoring the template, as a person would.", r.Node, wrongLink, len(l.Nodes)-r.RolledBack)
	}
	if _, err := l.editLink(ctx, list, cx7.rule, ""); err != nil {
		return r, err
	}
	if err := l.watch(ctx, newView(o.Screen, time.Now()), list); err != nil {
		return r, err
	}
	if r.Result = actRolledBack; len(before) > 0 {
		r.Result = actQuarantined
	}
	return r, nil
}

// editLink edits the link type of a rule, and returns what the rule declares then.
func (l *Lab) editLink(ctx context.Context, list []target, rule string, link v1alpha1.LinkType) (bad, error) {
	var digest v1alpha1.Digest
	template := fleetSettings(list)
	err := l.edit(ctx, template, func() {
		for i := range template.Spec.Rules {
			if r := &template.Spec.Rules[i]; r.Name == rule {
				r.Settings.LinkType = link
				digest = r.Digest()
			}
		}
	})
	if err != nil {
		return nil, err
	}
	return func(d *v1alpha1.NodeDevice) (v1alpha1.Digest, *v1alpha1.DeviceFailure) {
		switch is := d.Status.Configuration; {
		case d.Spec.Configuration.Digest() != digest:
			return "", nil
		case is != nil:
			return digest, is.Failure
		}
		return digest, nil
	}, nil
}

// judge compares the nodes that ever got the value before and now, and reads the machines: one of them got it, no other, and all have the
// settings of the first act.
func (r *SettingsReport) judge(nodes []*Node, list []target, before, now []string) error {
	var problems []error
	for _, n := range nodes {
		wrong := n.unsettled(list)
		if problems = append(problems, wrong); wrong == nil {
			r.Nodes++
		}
	}
	got := slices.DeleteFunc(slices.Clone(now), func(n string) bool { return slices.Contains(before, n) })
	switch {
	case len(got) == 1 && len(before) == 0:
		r.Node, r.RolledBack = got[0], 1
	case len(got) > 0 || len(before) == 0:
		problems = append(problems, fmt.Errorf("%d nodes got linkType %s instead of one: %s", len(got), wrongLink, strings.Join(got, ", ")))
	}
	return errors.Join(problems...)
}

// unsettled says what of the settings of the first act is not in force on the machine, or not after its next boot; nil where all is.
func (n *Node) unsettled(list []target) error {
	var problems []error
	for _, t := range list {
		for _, p := range append(slices.Clone(virtualFunctions), v1alpha1.ParameterValue{Name: firstPort, Value: toEthernet}) {
			if t.selector.Class != v1alpha1.ClassNIC {
				continue
			}
			inForce, stored, err := n.Machine.Setting(t.keys[0], p.Name)
			if err == nil && (strconv.Itoa(inForce) != p.Value || stored != inForce) {
				err = fmt.Errorf("%s of %s of %s is %d, and %d is stored, instead of %s", p.Name, t.keys[0], n.Name, inForce, stored, p.Value)
			}
			problems = append(problems, err)
		}
	}
	return errors.Join(problems...)
}
