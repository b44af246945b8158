package explain

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/reading"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
)

// Standings say how devices stand to what catalogs offer: what the operator found, by machine model, component and version.
type Standings struct {
	Catalogs  []*v1alpha1.FirmwareCatalog
	byMachine map[string]map[v1alpha1.ComponentKey]*v1alpha1.CatalogComponent
	// machineOf names the catalog of each node that has one.
	machineOf map[string]string
	// cut are the catalogs that do not list all vulnerabilities.
	cut map[string]bool
}

// StandingsIn are those of the catalogs. They know no node yet.
func StandingsIn(catalogs []*v1alpha1.FirmwareCatalog) *Standings {
	out := &Standings{Catalogs: catalogs, byMachine: map[string]map[v1alpha1.ComponentKey]*v1alpha1.CatalogComponent{}, machineOf: map[string]string{}, cut: map[string]bool{}}
	for _, c := range catalogs {
		components := map[v1alpha1.ComponentKey]*v1alpha1.CatalogComponent{}
		for i := range c.Status.Components {
			components[c.Status.Components[i].Key()] = &c.Status.Components[i]
		}
		out.byMachine[c.Name], out.cut[c.Name] = components, status.LeavesOutVulnerabilities(c.Status.Conditions)
	}
	return out
}

// Know says of which machine model a node is.
func (s *Standings) Know(n *v1alpha1.NodeFirmware) {
	if m := n.Status.Machine; m != nil {
		if machine, err := v1alpha1.CatalogOf(m.Vendor, m.Model); err == nil { // there is no catalog for others
			s.machineOf[n.Name] = machine.CatalogName()
		}
	}
}

// ReadStandings reads the catalogs, and of which machine model each node is.
func ReadStandings(ctx context.Context, api client.Reader) (*Standings, error) {
	catalogs, err := reading.All[*v1alpha1.FirmwareCatalog](ctx, api, &v1alpha1.FirmwareCatalogList{}, nil)
	if err != nil {
		return nil, err
	}
	out := StandingsIn(catalogs)
	err = reading.Each(ctx, api, &v1alpha1.NodeFirmwareList{}, nil, func(n *v1alpha1.NodeFirmware) error {
		out.Know(n)
		return nil
	})
	return out, err
}

// Of is the component of a device in the catalog of its machine, and how its version stands there. Both are nil where no catalog says.
func (s *Standings) Of(d *v1alpha1.NodeDevice) (*v1alpha1.CatalogComponent, *v1alpha1.CatalogRunning) {
	c := s.byMachine[s.machineOf[d.Spec.NodeName]][d.Status.Component()]
	if c == nil {
		return nil, nil
	}
	return c, c.RunningVersion(d.Status.Running())
}

// TellsAll reports whether the vulnerabilities that the catalog of the device lists for its version are all that it knows.
func (s *Standings) TellsAll(d *v1alpha1.NodeDevice, run *v1alpha1.CatalogRunning) bool {
	return run != nil && run.Issues != nil && (len(run.Issues) == 0 || !s.cut[s.machineOf[d.Spec.NodeName]])
}

// Newest is the newest version that a catalog offers for the component; empty for none.
func Newest(c *v1alpha1.CatalogComponent) string {
	if c == nil || len(c.Versions) == 0 {
		return ""
	}
	return c.Versions[0].Version
}
