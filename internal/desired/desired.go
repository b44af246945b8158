package desired

import (
	"strconv"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
)

// Of is an assigned firmware in the terms of package plan, with the request to retry of the device's node; the zero
// Desired for nil.
func Of(f *v1alpha1.DesiredFirmware, retry plan.Clearance) plan.Desired {
	if f == nil {
		return plan.Desired{}
	}
	out := plan.Desired{
		Version: inventory.NormalizeVersion(f.Version), Digest: Digest(f.Digest),
		ReportOnly:     f.Policy == v1alpha1.PolicyValidate,
		AllowDowngrade: f.Downgrade == v1alpha1.DowngradeAllow,
		Retry:          retry,
	}
	for _, e := range f.Path {
		out.Path = append(out.Path, plan.Edge{
			To: inventory.NormalizeVersion(e.To), From: versions(e.From), Below: inventory.NormalizeVersion(e.Below),
			Via: inventory.NormalizeVersion(e.Via), Digest: Digest(e.Digest),
		})
	}
	return out
}

// Configuration is what a device is told to be, in the terms of package plan.
func Configuration(c v1alpha1.DesiredConfiguration) *plan.Configuration {
	out := &plan.Configuration{ResetUnlisted: c.Unlisted == v1alpha1.UnlistedReset}
	set := func(name, value string) { out.Set = append(out.Set, inventory.Setting{Name: name, Value: value}) }
	if n := c.Settings.NumVFs; n != nil {
		set(inventory.SettingNumVFs, strconv.Itoa(int(*n)))
	}
	if t := c.Settings.LinkType; t != "" {
		set(inventory.SettingLinkType, string(t))
	}
	if n := c.Settings.MaxReadRequestBytes; n != nil {
		set(inventory.SettingMaxReadRequestBytes, strconv.Itoa(int(*n)))
	}
	for _, p := range c.Parameters {
		set(p.Name, p.Value)
	}
	return out
}

// Retry is the request to retry on a NodeFirmware; empty for nil and where there is no request.
func Retry(n *v1alpha1.NodeFirmware) plan.Clearance {
	if n == nil {
		return ""
	}
	return plan.Clearance(n.Spec.Requests.Retry)
}

// Release is the request to release on a NodeFirmware; empty for nil and where there is no request.
func Release(n *v1alpha1.NodeFirmware) plan.Clearance {
	if n == nil {
		return ""
	}
	return plan.Clearance(n.Spec.Requests.Release)
}

// Digest is zero for an absent digest; the API server admits no malformed one.
func Digest(d v1alpha1.Digest) inventory.Digest {
	out, err := inventory.ParseDigest(string(d))
	if err != nil {
		return inventory.Digest{}
	}
	return out
}

func versions(spelled []string) []inventory.Version {
	var out []inventory.Version
	for _, v := range spelled {
		out = append(out, inventory.NormalizeVersion(v))
	}
	return out
}
