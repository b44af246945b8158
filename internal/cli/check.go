package cli

import (
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/document"
	"github.com/nodefirmware/node-firmware-operator/internal/match"
	"github.com/nodefirmware/node-firmware-operator/pkg/artifact"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// checkTemplate refuses what the API server would refuse, because without a cluster no API server checks it.
func checkTemplate(t v1alpha1.FirmwareTemplate) []document.Problem {
	c := &checker{}
	c.template(t.Name, t.Spec.State, len(t.Spec.Rules))
	names := map[string]bool{}
	for i, r := range t.Spec.Rules {
		at := c.rule(i, r.Name, names, r.Selector, t.Spec.Machine)
		c.require(at+".version", r.Version)
		c.require(at+".sourceRef.name", r.SourceRef.Name)
		c.oneOf(at+".policy", string(r.Policy), "", string(v1alpha1.PolicyApply), string(v1alpha1.PolicyValidate))
		c.oneOf(at+".downgrade", string(r.Downgrade), "", string(v1alpha1.DowngradeForbid), string(v1alpha1.DowngradeAllow))
	}
	if _, err := match.NewTemplate(&t); err != nil {
		c.report("spec.nodeSelector", err.Error())
	}
	return c.problems
}

// checkConfiguration is checkTemplate for settings.
func checkConfiguration(t v1alpha1.ConfigurationTemplate) []document.Problem {
	c := &checker{}
	c.template(t.Name, t.Spec.State, len(t.Spec.Rules))
	names := map[string]bool{}
	for i, r := range t.Spec.Rules {
		at := c.rule(i, r.Name, names, r.Selector, t.Spec.Machine)
		c.oneOf(at+".policy", string(r.Policy), "", string(v1alpha1.PolicyApply), string(v1alpha1.PolicyValidate))
		c.oneOf(at+".unlisted", string(r.Unlisted), "", string(v1alpha1.UnlistedKeep), string(v1alpha1.UnlistedReset))
		c.oneOf(at+".settings.linkType", string(r.Settings.LinkType), "", "Ethernet", "InfiniBand")
		if n := r.Settings.NumVFs; n != nil && *n < 0 {
			c.report(at+".settings.numVFs", "must not be negative")
		}
		if r.Settings == (v1alpha1.Settings{}) && len(r.Parameters) == 0 && r.Unlisted != v1alpha1.UnlistedReset {
			c.report(at, "names no setting and no parameter")
		}
		if len(r.Parameters) > maxParameters {
			c.report(at+".parameters", fmt.Sprintf("%d are named, and at most %d may be", len(r.Parameters), maxParameters))
		}
		parameters := map[string]bool{}
		for j, p := range r.Parameters {
			in := fmt.Sprintf("%s.parameters[%d].name", at, j)
			c.require(in, p.Name)
			if parameters[p.Name] {
				c.report(in, fmt.Sprintf("%q is named twice", p.Name))
			}
			parameters[p.Name] = true
		}
	}
	if _, err := match.NewConfigurationTemplate(&t); err != nil {
		c.report("spec.nodeSelector", err.Error())
	}
	return c.problems
}

// maxParameters bounds the parameters of a rule.
const maxParameters = 128

// isAnyDevice reports whether a selector names nothing but a class.
func isAnyDevice(s v1alpha1.DeviceSelector) bool {
	return s.Vendor == "" && len(s.Models)+len(s.BoardIDs)+len(s.SerialNumbers)+len(s.PCIAddresses) == 0
}

func checkSource(s v1alpha1.FirmwareSource) []document.Problem {
	c := &checker{}
	c.require("metadata.name", s.Name)
	c.paths("spec.upgradePaths", s.Spec.UpgradePaths)
	if len(s.Spec.Files) == 0 {
		c.report("spec.files", "names no file")
	}
	for i, f := range s.Spec.Files {
		at := fmt.Sprintf("spec.files[%d]", i)
		c.fileURL(at+".url", f.URL)
		if _, err := inventory.ParseDigest(string(f.Digest)); err != nil && (f.Digest != "" || !artifact.OCI(f.URL)) {
			c.report(at+".digest", "must be sha256: and 64 hexadecimal digits")
		}
		if len(f.Images) == 0 {
			c.report(at+".images", "names no image")
		}
		for j, image := range f.Images {
			in := fmt.Sprintf("%s.images[%d]", at, j)
			c.class(in+".class", image.Class)
			c.require(in+".version", image.Version)
			if image.Path == "" && len(f.Images) > 1 || path.IsAbs(image.Path) || image.Path != "" && path.Clean(image.Path) != image.Path {
				c.report(in+".path", "an image of an archive needs its path within it, and an image that is the file has none")
			}
		}
	}
	return c.problems
}

type checker struct{ problems []document.Problem }

func (c *checker) report(at, text string) {
	c.problems = append(c.problems, document.Problem{Path: at, Text: at + ": " + text})
}

// template checks what all templates have.
func (c *checker) template(name string, state v1alpha1.TemplateState, rules int) {
	c.require("metadata.name", name)
	c.oneOf("spec.state", string(state), "", string(v1alpha1.TemplateActive), string(v1alpha1.TemplatePaused))
	if rules == 0 {
		c.report("spec.rules", "names no rule")
	}
}

// rule checks what all rules have, and returns where the rule is.
func (c *checker) rule(i int, name string, names map[string]bool, s v1alpha1.DeviceSelector, machine *v1alpha1.MachineSelector) (at string) {
	at = fmt.Sprintf("spec.rules[%d]", i)
	c.require(at+".name", name)
	if names[name] {
		c.report(at+".name", fmt.Sprintf("%q is the name of another rule too", name))
	}
	names[name] = true
	c.class(at+".selector.class", s.Class)
	if isBIOS := s.Class == v1alpha1.ClassBIOS; isAnyDevice(s) && !(isBIOS && machine != nil) {
		c.report(at+".selector", `name a vendor, models, boardIDs, serialNumbers or pciAddresses; for the devices of every vendor, set vendor to any`)
	}
	return at
}

func (c *checker) require(at, value string) {
	if value == "" {
		c.report(at, "is required")
	}
}

func (c *checker) class(at string, class v1alpha1.DeviceClass) {
	c.oneOf(at, string(class), string(v1alpha1.ClassNIC), string(v1alpha1.ClassStorageController),
		string(v1alpha1.ClassDisk), string(v1alpha1.ClassBIOS))
}

func (c *checker) oneOf(at, value string, allowed ...string) {
	if !slices.Contains(allowed, value) {
		c.report(at, fmt.Sprintf("is %q, want one of %q", value, allowed))
	}
}

func (c *checker) paths(at string, p []v1alpha1.UpgradePath) {
	if wrong := match.NewPaths(p, "").Invalid(); wrong != "" {
		c.report(at, wrong)
	}
}

func (c *checker) fileURL(at, value string) {
	u, err := url.Parse(value)
	switch {
	case err != nil || !slices.Contains([]string{"https", "http", "file", "oci"}, u.Scheme):
		c.report(at, "must be an https, http, file or oci URL")
	case u.Scheme == "oci" && !strings.Contains(u.Path, "@sha256:"):
		c.report(at, "an OCI reference looks like oci://registry/repository@sha256:digest, because a registry may move a tag")
	case u.User != nil:
		c.report(at, "must not carry a user name or password")
	case u.Scheme == "file" && (u.Host != "" || !path.IsAbs(u.Path)):
		c.report(at, "a file URL looks like file:///absolute/path")
	}
}
