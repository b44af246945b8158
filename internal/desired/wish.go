package desired

import (
	"time"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
)

// Wish is an assigned firmware in the terms of package plan; the zero Wish for nil. Failures before retryAfter are
// forgiven.
func Wish(f *v1alpha1.DesiredFirmware, retryAfter time.Time) plan.Wish {
	if f == nil {
		return plan.Wish{}
	}
	return plan.Wish{
		Version: inventory.NormalizeVersion(f.Version), Digest: digest(f.Digest),
		ReportOnly:     f.UpdatePolicy == v1alpha1.UpdatePolicyValidate,
		AllowDowngrade: f.Downgrade == v1alpha1.DowngradeAllow,
		RetryAfter:     retryAfter,
		Path:           Path(f.Path), Hops: Hops(f.Path),
	}
}

// Path is what restricts how the wanted version itself is reached; the zero Path for nil.
func Path(p *v1alpha1.UpgradePath) plan.Path {
	if p == nil {
		return plan.Path{}
	}
	return path(p.BlockedFrom, p.MinimumVersion)
}

// Hops are the versions on the way to the wanted one, in the order they are looked at; nil for nil.
func Hops(p *v1alpha1.UpgradePath) []plan.Hop {
	if p == nil {
		return nil
	}
	var out []plan.Hop
	for _, h := range p.Hops {
		out = append(out, plan.Hop{
			From: versions(h.From), Version: inventory.NormalizeVersion(h.Version), Digest: digest(h.Digest),
			Path: path(h.BlockedFrom, h.MinimumVersion),
		})
	}
	return out
}

func path(blockedFrom []string, minimum string) plan.Path {
	return plan.Path{BlockedFrom: versions(blockedFrom), Minimum: inventory.NormalizeVersion(minimum)}
}

func versions(spelled []string) []inventory.Version {
	var out []inventory.Version
	for _, v := range spelled {
		out = append(out, inventory.NormalizeVersion(v))
	}
	return out
}

// digest is zero for an absent digest; the API server admits no malformed one.
func digest(d v1alpha1.Digest) inventory.Digest {
	out, err := inventory.ParseDigest(string(d))
	if err != nil {
		return inventory.Digest{}
	}
	return out
}
