package v1alpha1_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
)

const digest = v1alpha1.Digest("sha256:3b1f1c0fca2d0b5dd0e5d6d7d6b0c9a4b0e2a1f0c5d4e3b2a1908f7e6d5c4b3a")

// validation is one side of a rule: a change to a valid object, and what the API server says to it.
type validation[T client.Object] struct {
	name   string
	change func(T)
	// field and message are of the rejection; both are empty where the object is accepted.
	field, message string
}

// checkCreate creates, without keeping it, a valid object with each change.
func checkCreate[T client.Object](t *testing.T, valid func() T, cases []validation[T]) {
	t.Helper()
	env := apitest.New(t)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			object := valid()
			c.change(object)
			c.check(t, env.Client.Create(t.Context(), object, client.DryRunAll))
		})
	}
}

// checkUpdate makes each change to an object that exists, without keeping it.
func checkUpdate[T client.Object](t *testing.T, existing T, cases []validation[T]) {
	t.Helper()
	env := apitest.New(t)
	require.NoError(t, env.Client.Create(t.Context(), existing))
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			object := existing.DeepCopyObject().(T)
			c.change(object)
			c.check(t, env.Client.Update(t.Context(), object, client.DryRunAll))
		})
	}
}

// checkStatus writes, without keeping it, the status of an object that exists with each change.
func checkStatus[T client.Object](t *testing.T, existing T, valid func(T), cases []validation[T]) {
	t.Helper()
	env := apitest.New(t)
	require.NoError(t, env.Client.Create(t.Context(), existing))
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			object := existing.DeepCopyObject().(T)
			valid(object)
			c.change(object)
			c.check(t, env.Client.Status().Update(t.Context(), object, &client.SubResourceUpdateOptions{
				UpdateOptions: client.UpdateOptions{DryRun: []string{metav1.DryRunAll}},
			}))
		})
	}
}

func (c validation[T]) check(t *testing.T, err error) {
	t.Helper()
	if c.field == "" {
		require.NoError(t, err)
		return
	}
	require.True(t, apierrors.IsInvalid(err), "want a rejection of %s, got %v", c.field, err)
	var said []string
	for _, cause := range err.(apierrors.APIStatus).Status().Details.Causes {
		if cause.Field == c.field && strings.Contains(cause.Message, c.message) {
			return
		}
		said = append(said, fmt.Sprintf("%s: %s", cause.Field, cause.Message))
	}
	assert.Fail(t, "rejected for another reason", "want %s: %s\ngot %s", c.field, c.message, strings.Join(said, "\n"))
}

// TestFirmwareTemplateValidation (R000-7, R001-8).
func TestFirmwareTemplateValidation(t *testing.T) {
	type change = validation[*v1alpha1.FirmwareTemplate]
	rule := func(o *v1alpha1.FirmwareTemplate) *v1alpha1.FirmwareRule { return &o.Spec.Rules[0] }
	cases := []change{
		{name: "a plain template", change: func(*v1alpha1.FirmwareTemplate) {}},
		{name: "no rules", change: func(o *v1alpha1.FirmwareTemplate) { o.Spec.Rules = nil },
			field: "spec", message: "Required"},
		{name: "64 rules", change: func(o *v1alpha1.FirmwareTemplate) { repeatRules(o, 64) }},
		{name: "65 rules", change: func(o *v1alpha1.FirmwareTemplate) { repeatRules(o, 65) },
			field: "spec.rules", message: "at most 64 items"},
		{name: "two rules of one name", change: func(o *v1alpha1.FirmwareTemplate) {
			o.Spec.Rules = append(o.Spec.Rules, o.Spec.Rules[0])
		}, field: "spec.rules[1]", message: "Duplicate value"},
		{name: "a rule's name that is no label", change: func(o *v1alpha1.FirmwareTemplate) { rule(o).Name = "CX6" },
			field: "spec.rules[0].name", message: "should match"},
		{name: "a rule without a name", change: func(o *v1alpha1.FirmwareTemplate) { rule(o).Name = "" },
			field: "spec.rules[0].name", message: "Required"},
		{name: "a rule without a selector", change: func(o *v1alpha1.FirmwareTemplate) {
			rule(o).Selector = v1alpha1.DeviceSelector{}
		}, field: "spec.rules[0].selector", message: "Required"},
		{name: "an unknown class", change: func(o *v1alpha1.FirmwareTemplate) { rule(o).Selector.Class = "GPU" },
			field: "spec.rules[0].selector.class", message: `supported values: "NIC", "StorageController", "Disk", "BIOS"`},
		{name: "a selector without a class", change: func(o *v1alpha1.FirmwareTemplate) {
			rule(o).Selector = v1alpha1.DeviceSelector{Vendor: "15b3"}
		}, field: "spec.rules[0].selector.class", message: "Required"},
		{name: "a class alone", change: func(o *v1alpha1.FirmwareTemplate) {
			rule(o).Selector = v1alpha1.DeviceSelector{Class: v1alpha1.ClassNIC}
		}, field: "spec.rules[0].selector",
			message: "name a vendor, models, boardIDs, serialNumbers or pciAddresses; for the devices of every vendor, set vendor to any"},
		{name: "a class of every vendor on purpose", change: func(o *v1alpha1.FirmwareTemplate) {
			rule(o).Selector = v1alpha1.DeviceSelector{Class: v1alpha1.ClassDisk, Vendor: v1alpha1.AnyVendor}
		}},
		{name: "a vendor without a letter or digit", change: func(o *v1alpha1.FirmwareTemplate) { rule(o).Selector.Vendor = "*" },
			field: "spec.rules[0].selector.vendor", message: "should match"},
		{name: "a board id alone", change: func(o *v1alpha1.FirmwareTemplate) {
			rule(o).Selector = v1alpha1.DeviceSelector{Class: v1alpha1.ClassNIC, BoardIDs: []string{"MT_1"}}
		}},
		{name: "the BIOS of one machine model", change: func(o *v1alpha1.FirmwareTemplate) {
			o.Spec.Machine = &v1alpha1.MachineSelector{Model: "7X21"}
			rule(o).Selector = v1alpha1.DeviceSelector{Class: v1alpha1.ClassBIOS}
		}},
		{name: "the BIOS of any machine", change: func(o *v1alpha1.FirmwareTemplate) {
			rule(o).Selector = v1alpha1.DeviceSelector{Class: v1alpha1.ClassBIOS}
		}, field: "spec.rules",
			message: "a rule of class BIOS must name a vendor, models, boardIDs or serialNumbers unless spec.machine names the machine; for the BIOS of every machine, set its vendor to any"},
		{name: "PCI addresses of network adapters", change: func(o *v1alpha1.FirmwareTemplate) {
			rule(o).Selector.PCIAddresses = []string{"0000:3b:00.0", "0000:af:1f.7"}
		}},
		{name: "PCI addresses of a BIOS", change: func(o *v1alpha1.FirmwareTemplate) {
			rule(o).Selector = v1alpha1.DeviceSelector{
				Class: v1alpha1.ClassBIOS, PCIAddresses: []string{"0000:3b:00.0"},
			}
		}, field: "spec.rules[0].selector", message: "a BIOS has no PCI address; remove pciAddresses"},
		{name: "a PCI address without a domain", change: func(o *v1alpha1.FirmwareTemplate) {
			rule(o).Selector.PCIAddresses = []string{"3b:00.0"}
		}, field: "spec.rules[0].selector.pciAddresses[0]", message: "should match"},
		{name: "one board id twice", change: func(o *v1alpha1.FirmwareTemplate) {
			rule(o).Selector.BoardIDs = []string{"MT_1", "MT_1"}
		}, field: "spec.rules[0].selector.boardIDs[1]", message: "Duplicate value"},
		{name: "an empty serial number", change: func(o *v1alpha1.FirmwareTemplate) {
			rule(o).Selector.SerialNumbers = []string{""}
		}, field: "spec.rules[0].selector.serialNumbers[0]", message: "at least 1 chars"},
		{name: "a version with blanks inside", change: func(o *v1alpha1.FirmwareTemplate) { rule(o).Version = "A 1.0" }},
		{name: "a version that ends with a blank", change: func(o *v1alpha1.FirmwareTemplate) {
			rule(o).Version = "22.41.1000 "
		}, field: "spec.rules[0].version", message: "version must not begin or end with spaces"},
		{name: "a version of 64 characters", change: func(o *v1alpha1.FirmwareTemplate) {
			rule(o).Version = strings.Repeat("1", 64)
		}},
		{name: "a version of 65 characters", change: func(o *v1alpha1.FirmwareTemplate) {
			rule(o).Version = strings.Repeat("1", 65)
		}, field: "spec.rules[0].version", message: "may not be more than 64"},
		{name: "no version", change: func(o *v1alpha1.FirmwareTemplate) { rule(o).Version = "" },
			field: "spec.rules[0].version", message: "Required"},
		{name: "no source", change: func(o *v1alpha1.FirmwareTemplate) { rule(o).SourceRef.Name = "" },
			field: "spec.rules[0].sourceRef", message: "Required"},
		{name: "an unknown update policy", change: func(o *v1alpha1.FirmwareTemplate) { rule(o).Policy = "Force" },
			field: "spec.rules[0].policy", message: `supported values: "Apply", "Validate"`},
		{name: "an unknown downgrade policy", change: func(o *v1alpha1.FirmwareTemplate) { rule(o).Downgrade = "Yes" },
			field: "spec.rules[0].downgrade", message: `supported values: "Forbid", "Allow"`},
		{name: "a machine by vendor alone", change: func(o *v1alpha1.FirmwareTemplate) {
			o.Spec.Machine = &v1alpha1.MachineSelector{Vendor: "Lenovo"}
		}},
		{name: "a machine by model alone", change: func(o *v1alpha1.FirmwareTemplate) {
			o.Spec.Machine = &v1alpha1.MachineSelector{Model: "7X21"}
		}},
		{name: "a machine by nothing", change: func(o *v1alpha1.FirmwareTemplate) {
			o.Spec.Machine = &v1alpha1.MachineSelector{}
		}, field: "spec.machine", message: "name a vendor, a model, or both"},
		{name: "a paused template", change: func(o *v1alpha1.FirmwareTemplate) { o.Spec.State = v1alpha1.TemplatePaused }},
		{name: "an unknown state", change: func(o *v1alpha1.FirmwareTemplate) { o.Spec.State = "Off" },
			field: "spec.state", message: `supported values: "Active", "Paused"`},
	}
	for _, c := range selectorCases() {
		cases = append(cases, change{name: c.name, field: c.field, message: c.message,
			change: func(o *v1alpha1.FirmwareTemplate) { o.Spec.NodeSelector = c.selector }})
	}
	checkCreate(t, validTemplate, cases)
}

// TestFirmwareSourceValidation (R000-7, R001-13).
func TestFirmwareSourceValidation(t *testing.T) {
	type change = validation[*v1alpha1.FirmwareSource]
	file := func(o *v1alpha1.FirmwareSource) *v1alpha1.FirmwareFile { return &o.Spec.Files[0] }
	url := func(u string) func(*v1alpha1.FirmwareSource) {
		return func(o *v1alpha1.FirmwareSource) { file(o).URL = u }
	}
	path := func(p string) func(*v1alpha1.FirmwareSource) {
		return func(o *v1alpha1.FirmwareSource) { file(o).Images[0].Path = p }
	}
	verify := func(keys ...string) func(*v1alpha1.FirmwareSource) {
		return func(o *v1alpha1.FirmwareSource) { o.Spec.Verification = &v1alpha1.SourceVerification{Keys: keys} }
	}
	sigstore := func(identities ...v1alpha1.SignerIdentity) func(*v1alpha1.FirmwareSource) {
		return func(o *v1alpha1.FirmwareSource) {
			file(o).SignatureURL = "https://firmware.example.com/a.bin.sigstore.json"
			o.Spec.Verification = &v1alpha1.SourceVerification{TrustedRoot: "{}", Identities: identities}
		}
	}
	who := v1alpha1.SignerIdentity{Issuer: "https://accounts.example.com", Subject: "release@example.com"}
	const identitiesField = "spec.verification.identities"
	const pathField = "spec.files[0].images[0].path"
	checkCreate(t, validSource, []change{
		{name: "a plain source", change: func(*v1alpha1.FirmwareSource) {}},
		{name: "no files", change: func(o *v1alpha1.FirmwareSource) { o.Spec.Files = nil },
			field: "spec", message: "Required"},
		{name: "several archives (R001-13)", change: func(o *v1alpha1.FirmwareSource) {
			path("a.bin")(o)
			o.Spec.Files = append(o.Spec.Files, o.Spec.Files[0])
			o.Spec.Files[1].URL += ".2"
		}},
		{name: "one URL twice", change: func(o *v1alpha1.FirmwareSource) {
			o.Spec.Files = append(o.Spec.Files, o.Spec.Files[0])
		}, field: "spec.files[1]", message: "Duplicate value"},
		{name: "an http URL", change: url("http://firmware.example.com/a.bin")},
		{name: "a file URL", change: url("file:///a.bin")},
		{name: "an ftp URL", change: url("ftp://firmware.example.com/a.bin"),
			field: "spec.files[0].url", message: "url must begin with https://, http://, file:// or oci:// and contain no spaces"},
		{name: "a URL with a blank", change: url("https://firmware.example.com/a b.bin"),
			field: "spec.files[0].url", message: "url must begin with https://, http://, file:// or oci:// and contain no spaces"},
		{name: "a URL with credentials", change: url("https://user:secret@firmware.example.com/a.bin"),
			field: "spec.files[0].url", message: "url must not carry credentials"},
		{name: "a URL with an @ in its path", change: url("https://firmware.example.com/a@1.bin")},
		{name: "signed", change: func(o *v1alpha1.FirmwareSource) {
			verify("RWQ")(o)
			file(o).SignatureURL = "https://firmware.example.com/a@1.bin.minisig"
		}},
		{name: "keys and a file without a signature", change: verify("RWQ"),
			field: "spec", message: "signatureURL is required for every file if verification is set, and not allowed otherwise, because it would not be verified"},
		{name: "a signature without a verification", change: func(o *v1alpha1.FirmwareSource) {
			file(o).SignatureURL = "https://firmware.example.com/a.minisig"
		}, field: "spec", message: "not allowed otherwise"},
		{name: "a signature with credentials", change: func(o *v1alpha1.FirmwareSource) {
			verify("RWQ")(o)
			file(o).SignatureURL = "https://user:secret@firmware.example.com/a.minisig"
		}, field: "spec.files[0].signatureURL", message: "should match"},
		{name: "nobody who may sign", change: verify(), field: "spec.verification", message: "verification needs either keys, or trustedRoot and identities"},
		{name: "signed by an identity", change: sigstore(who, v1alpha1.SignerIdentity{Issuer: "https://ci.example.com", SubjectRegExp: "https://ci/.*"})},
		{name: "identities and a file without a signature", change: func(o *v1alpha1.FirmwareSource) {
			sigstore(who)(o)
			file(o).SignatureURL = ""
		}, field: "spec", message: "signatureURL is required for every file"},
		{name: "keys beside identities", change: func(o *v1alpha1.FirmwareSource) {
			sigstore(who)(o)
			o.Spec.Verification.Keys = []string{"RWQ"}
		}, field: "spec.verification", message: "verification needs either keys, or trustedRoot and identities"},
		{name: "no identity", change: sigstore(), field: "spec.verification", message: "trustedRoot and identities must be set together"},
		{name: "identities beside keys", change: func(o *v1alpha1.FirmwareSource) {
			sigstore(who)(o)
			o.Spec.Verification.TrustedRoot, o.Spec.Verification.Keys = "", []string{"RWQ"}
		}, field: "spec.verification", message: "trustedRoot and identities must be set together"},
		{name: "a trusted root without end", change: func(o *v1alpha1.FirmwareSource) {
			sigstore(who)(o)
			o.Spec.Verification.TrustedRoot = strings.Repeat("x", 32769)
		}, field: "spec.verification.trustedRoot", message: "may not be more than 32768 bytes"},
		{name: "an identity without a subject", change: sigstore(v1alpha1.SignerIdentity{Issuer: who.Issuer}),
			field: identitiesField + "[0]", message: "an identity needs either subject or subjectRegExp"},
		{name: "an identity with two subjects", change: sigstore(v1alpha1.SignerIdentity{Issuer: who.Issuer, Subject: "a", SubjectRegExp: "b"}),
			field: identitiesField + "[0]", message: "an identity needs either subject or subjectRegExp"},
		{name: "an identity that nobody knows", change: sigstore(v1alpha1.SignerIdentity{Subject: "a"}),
			field: identitiesField + "[0].issuer", message: "Required"},
		{name: "a digest in upper case", change: func(o *v1alpha1.FirmwareSource) {
			file(o).Digest = v1alpha1.Digest("SHA256:" + strings.Repeat("AB", 32))
		},
			field: "spec.files[0].digest", message: "write the digest as sha256:" + strings.Repeat("ab", 32)},
		{name: "a digest without its kind", change: func(o *v1alpha1.FirmwareSource) { file(o).Digest = v1alpha1.Digest(strings.Repeat("ab", 32)) },
			field: "spec.files[0].digest", message: "write the digest as sha256:" + strings.Repeat("ab", 32)},
		{name: "a digest of another kind", change: func(o *v1alpha1.FirmwareSource) { file(o).Digest = v1alpha1.Digest("md5:" + strings.Repeat("ab", 16)) },
			field: "spec.files[0].digest", message: "a digest is sha256: and 64 hexadecimal digits in lower case, as sha256sum FILE prints them"},
		{name: "no digest", change: func(o *v1alpha1.FirmwareSource) { file(o).Digest = "" }, field: "spec.files[0]", message: "digest is required: without it any file would be accepted"},
		{name: "an artifact by its digest", change: func(o *v1alpha1.FirmwareSource) {
			file(o).URL, file(o).Digest = "oci://registry.example:5000/fw/cx@sha256:"+strings.Repeat("a", 64), ""
		}},
		{name: "an artifact by a tag", change: func(o *v1alpha1.FirmwareSource) { file(o).URL = "oci://registry.example/fw/cx:v1" },
			field: "spec.files[0].url", message: "an OCI reference is oci://registry/repository@sha256:digest, because a registry may move a tag to another artifact"},
		{name: "an artifact with a password", change: func(o *v1alpha1.FirmwareSource) {
			file(o).URL = "oci://u:p@registry.example/fw/cx@sha256:" + strings.Repeat("a", 64)
		}, field: "spec.files[0].url", message: "an OCI reference is"},
		{name: "a Secret without a name", change: func(o *v1alpha1.FirmwareSource) { o.Spec.SecretRef = &v1alpha1.LocalReference{} },
			field: "spec.secretRef.name", message: "Required"},
		{name: "half a digest", change: func(o *v1alpha1.FirmwareSource) { file(o).Digest = "sha256:3b1f" },
			field: "spec.files[0].digest", message: "a digest is sha256: and 64 hexadecimal digits in lower case"},
		{name: "a file without images", change: func(o *v1alpha1.FirmwareSource) { file(o).Images = nil },
			field: "spec.files[0].images", message: "Required"},
		{name: "two images that are one file", change: func(o *v1alpha1.FirmwareSource) {
			file(o).Images = append(file(o).Images, file(o).Images[0])
		}, field: "spec.files[0]", message: "a file of several images is an archive: each needs its path within it"},
		{name: "an archive and an image in it", change: func(o *v1alpha1.FirmwareSource) {
			file(o).Images = append(file(o).Images, file(o).Images[0])
			file(o).Images[1].Path = "a.bin"
		}, field: "spec.files[0]", message: "each needs its path within it"},
		{name: "a path", change: path("MCX623106AC/v1..2/fw..bin")},
		{name: "an absolute path", change: path("/etc/fw.bin"),
			field: pathField, message: "path must be relative and without empty or '..' elements"},
		{name: "a path that climbs", change: path("a/../../fw.bin"),
			field: pathField, message: "path must be relative and without empty or '..' elements"},
		{name: "a path that ends above", change: path("a/.."),
			field: pathField, message: "path must be relative and without empty or '..' elements"},
		{name: "a path with an empty element", change: path("a//fw.bin"),
			field: pathField, message: "path must be relative and without empty or '..' elements"},
		{name: "an image without a class", change: func(o *v1alpha1.FirmwareSource) { file(o).Images[0].Class = "" },
			field: "spec.files[0].images[0].class", message: "Required"},
		{name: "an image for a vendor without a letter or digit", change: func(o *v1alpha1.FirmwareSource) { file(o).Images[0].Vendor = "*" },
			field: "spec.files[0].images[0].vendor", message: "should match"},
		{name: "an image without a version", change: func(o *v1alpha1.FirmwareSource) { file(o).Images[0].Version = "" },
			field: "spec.files[0].images[0].version", message: "Required"},
	})
}

type selectorCase struct {
	name, field, message string
	selector             *metav1.LabelSelector
}

// selectorCases are node selectors, for each kind that has one.
func selectorCases() []selectorCase {
	const message = "operator must be In or NotIn, with values, or Exists or DoesNotExist, without"
	var out []selectorCase
	add := func(name, field string, expressions ...metav1.LabelSelectorRequirement) {
		c := selectorCase{name: "selector: " + name, selector: &metav1.LabelSelector{MatchExpressions: expressions}}
		if field != "" {
			c.field, c.message = field, message
		}
		out = append(out, c)
	}
	values := []string{"a"}
	add("every operator", "",
		metav1.LabelSelectorRequirement{Key: "pool", Operator: metav1.LabelSelectorOpIn, Values: values},
		metav1.LabelSelectorRequirement{Key: "pool", Operator: metav1.LabelSelectorOpNotIn, Values: values},
		metav1.LabelSelectorRequirement{Key: "pool", Operator: metav1.LabelSelectorOpExists},
		metav1.LabelSelectorRequirement{Key: "pool", Operator: metav1.LabelSelectorOpDoesNotExist})
	add("nothing", "")
	add("an unknown operator", "spec.nodeSelector", metav1.LabelSelectorRequirement{Key: "pool", Operator: "Within", Values: values})
	add("no operator", "spec.nodeSelector", metav1.LabelSelectorRequirement{Key: "pool", Values: values})
	add("In without values", "spec.nodeSelector", metav1.LabelSelectorRequirement{Key: "pool", Operator: metav1.LabelSelectorOpIn})
	add("Exists with values", "spec.nodeSelector", metav1.LabelSelectorRequirement{Key: "pool", Operator: metav1.LabelSelectorOpExists, Values: values})
	return out
}

// TestRolloutPolicyValidation (R000-7).
func TestRolloutPolicyValidation(t *testing.T) {
	type change = validation[*v1alpha1.RolloutPolicy]
	number := func(n int) func(*v1alpha1.RolloutPolicy) {
		return func(o *v1alpha1.RolloutPolicy) { o.Spec.MaxUnavailable = new(intstr.FromInt(n)) }
	}
	text := func(s string) func(*v1alpha1.RolloutPolicy) {
		return func(o *v1alpha1.RolloutPolicy) { o.Spec.MaxUnavailable = new(intstr.FromString(s)) }
	}
	const message = "maxUnavailable must be a number of nodes from 0 or a percentage from 0% to 100%"
	cases := []change{
		{name: "a plain policy", change: func(*v1alpha1.RolloutPolicy) {}},
		{name: "a paused policy", change: func(o *v1alpha1.RolloutPolicy) { o.Spec.State = v1alpha1.RolloutPaused }},
		{name: "an unknown state", change: func(o *v1alpha1.RolloutPolicy) { o.Spec.State = "Stopped" },
			field: "spec.state", message: `supported values: "Active", "Paused"`},
		{name: "minus one node", change: number(-1), field: "spec.maxUnavailable", message: message},
	}
	for _, c := range selectorCases() {
		cases = append(cases, change{name: c.name, field: c.field, message: c.message,
			change: func(o *v1alpha1.RolloutPolicy) { o.Spec.NodeSelector = c.selector }})
	}
	for _, n := range []int{0, 1, 5000} {
		cases = append(cases, change{name: fmt.Sprintf("%d nodes", n), change: number(n)})
	}
	for _, s := range []string{"0%", "7%", "10%", "99%", "100%"} {
		cases = append(cases, change{name: s, change: text(s)})
	}
	for _, s := range []string{"101%", "-1%", "1.5%", "05%", "5", "half", "", "%"} {
		cases = append(cases, change{name: fmt.Sprintf("%q", s), change: text(s),
			field: "spec.maxUnavailable", message: message})
	}
	checkCreate(t, func() *v1alpha1.RolloutPolicy {
		return &v1alpha1.RolloutPolicy{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}
	}, cases)
}

// TestNodeFirmwareValidation (R000-7, R000-13).
func TestNodeFirmwareValidation(t *testing.T) {
	type change = validation[*v1alpha1.NodeFirmware]
	pin := func(o *v1alpha1.NodeFirmware) *v1alpha1.FirmwareRule { return &o.Spec.Pins[0] }
	threshold := func(s v1alpha1.Duration) func(*v1alpha1.NodeFirmware) {
		return func(o *v1alpha1.NodeFirmware) { o.Spec.ScanThreshold = s }
	}
	cases := []change{
		{name: "a plain object", change: func(*v1alpha1.NodeFirmware) {}},
		{name: "no pins", change: func(o *v1alpha1.NodeFirmware) { o.Spec.Pins = nil }},
		{name: "two pins of one name", change: func(o *v1alpha1.NodeFirmware) {
			o.Spec.Pins = append(o.Spec.Pins, o.Spec.Pins[0])
		}, field: "spec.pins[1]", message: "Duplicate value"},
		{name: "a pin's name that is no label", change: func(o *v1alpha1.NodeFirmware) { pin(o).Name = "a_b" },
			field: "spec.pins[0].name", message: "should match"},
		{name: "a pin of a class alone", change: func(o *v1alpha1.NodeFirmware) {
			*pin(o) = v1alpha1.FirmwareRule{Name: "a", Selector: v1alpha1.DeviceSelector{Class: v1alpha1.ClassNIC}, Version: "1", SourceRef: pin(o).SourceRef}
		}, field: "spec.pins[0].selector",
			message: "name a vendor, models, boardIDs, serialNumbers or pciAddresses; for the devices of every vendor, set vendor to any"},
		{name: "a pin of every vendor on purpose", change: func(o *v1alpha1.NodeFirmware) {
			*pin(o) = v1alpha1.FirmwareRule{Name: "a", Selector: v1alpha1.DeviceSelector{Class: v1alpha1.ClassNIC, Vendor: v1alpha1.AnyVendor}, Version: "1", SourceRef: pin(o).SourceRef}
		}},
		{name: "a pin of the BIOS, of which a node has one", change: func(o *v1alpha1.NodeFirmware) {
			pin(o).Selector.Vendor, pin(o).Selector.Models = "", nil
		}},
		{name: "a pin of one card by its address", change: func(o *v1alpha1.NodeFirmware) {
			*pin(o) = v1alpha1.FirmwareRule{Name: "a", Selector: v1alpha1.DeviceSelector{Class: v1alpha1.ClassNIC, PCIAddresses: []string{"0000:3b:00.0"}}, Version: "1", SourceRef: pin(o).SourceRef}
		}},
		{name: "a pin by a malformed address", change: func(o *v1alpha1.NodeFirmware) {
			pin(o).Selector.Class, pin(o).Selector.PCIAddresses = v1alpha1.ClassNIC, []string{"3b:00.0"}
		}, field: "spec.pins[0].selector.pciAddresses[0]", message: "should match"},
		{name: "a pin by the PCI address of a BIOS", change: func(o *v1alpha1.NodeFirmware) { pin(o).Selector.PCIAddresses = []string{"0000:3b:00.0"} },
			field: "spec.pins[0].selector", message: "a BIOS has no PCI address; remove pciAddress"},
		{name: "a pin without a class", change: func(o *v1alpha1.NodeFirmware) { pin(o).Selector.Class = "" },
			field: "spec.pins[0].selector.class", message: "Required"},
		{name: "a pin without a version", change: func(o *v1alpha1.NodeFirmware) { pin(o).Version = "" },
			field: "spec.pins[0].version", message: "Required"},
		{name: "a pinned version that begins with a blank", change: func(o *v1alpha1.NodeFirmware) {
			pin(o).Version = " 2.61"
		}, field: "spec.pins[0].version", message: "version must not begin or end with spaces"},
		{name: "a pin without a source", change: func(o *v1alpha1.NodeFirmware) { pin(o).SourceRef.Name = "" },
			field: "spec.pins[0].sourceRef", message: "Required"},
	}
	for _, s := range []v1alpha1.Duration{"1s", "5m", "1000ms", "1h30m", "720h"} {
		cases = append(cases, change{name: "scan threshold " + string(s), change: threshold(s)})
	}
	for _, s := range []v1alpha1.Duration{"0s", "999ms", "-5m", "1.5h", "5 m", "soon", "5d"} {
		cases = append(cases, change{name: "scan threshold " + string(s), change: threshold(s),
			field: "spec.scanThreshold", message: "scanThreshold must be a duration of at least 1s, such as 5m"})
	}
	checkCreate(t, validNodeFirmware, cases)
}

// TestNodeDeviceValidation (R000-7).
func TestNodeDeviceValidation(t *testing.T) {
	type change = validation[*v1alpha1.NodeDevice]
	t.Run("create", func(t *testing.T) {
		checkCreate(t, validDevice, []change{
			{name: "an assigned device", change: func(*v1alpha1.NodeDevice) {}},
			{name: "an unassigned device", change: func(o *v1alpha1.NodeDevice) { o.Spec.Firmware, o.Spec.Origin = nil, nil }},
			{name: "a device without an image", change: func(o *v1alpha1.NodeDevice) { o.Spec.Firmware.Digest = "" }},
			{name: "no node", change: func(o *v1alpha1.NodeDevice) { o.Spec.NodeName = "" },
				field: "spec.nodeName", message: "Required"},
			{name: "a digest without its algorithm", change: func(o *v1alpha1.NodeDevice) {
				o.Spec.Firmware.Digest = digest[len("sha256:"):]
			}, field: "spec.firmware.digest", message: "should match"},
			{name: "no version", change: func(o *v1alpha1.NodeDevice) { o.Spec.Firmware.Version = "" },
				field: "spec.firmware.version", message: "Required"},
			{name: "no update policy", change: func(o *v1alpha1.NodeDevice) { o.Spec.Firmware.Policy = "" },
				field: "spec.firmware.policy", message: "Required"},
			{name: "no origin", change: func(o *v1alpha1.NodeDevice) { o.Spec.Origin = nil },
				field: "spec.origin", message: "firmware or configuration must be set together with origin"},
			{name: "an unknown origin", change: func(o *v1alpha1.NodeDevice) { o.Spec.Origin[0].Kind = "User" },
				field: "spec.origin[0].kind", message: `supported values: "FirmwareTemplate", "ConfigurationTemplate", "NodeFirmware", "FirmwareSource"`},
		})
	})
	t.Run("update", func(t *testing.T) {
		checkUpdate(t, validDevice(), []change{
			{name: "another version", change: func(o *v1alpha1.NodeDevice) { o.Spec.Firmware.Version = "22.42.1000" }},
			{name: "nothing assigned any more", change: func(o *v1alpha1.NodeDevice) { o.Spec.Firmware, o.Spec.Origin = nil, nil }},
			{name: "another node", change: func(o *v1alpha1.NodeDevice) { o.Spec.NodeName = "gpu-018" },
				field: "spec.nodeName", message: "nodeName is immutable"},
		})
	})
}

// TestFirmwareJobValidation (R000-7): a job is never edited to mean something else.
func TestFirmwareJobValidation(t *testing.T) {
	type change = validation[*v1alpha1.FirmwareJob]
	update := func(o *v1alpha1.FirmwareJob) *v1alpha1.TaskDevice { return &o.Spec.Task.Devices[0] }
	const devicesMessage, immutable = "a job of type Update or Restore lists its devices, one of type Backup may, and one of type Steps has none", "task is immutable; create a new job"
	t.Run("create", func(t *testing.T) {
		checkCreate(t, validJob, []change{
			{name: "an update", change: func(*v1alpha1.FirmwareJob) {}},
			{name: "an update of nothing", change: func(o *v1alpha1.FirmwareJob) { o.Spec.Task.Devices = nil },
				field: "spec.task.devices", message: devicesMessage},
			{name: "an unknown type", change: func(o *v1alpha1.FirmwareJob) { o.Spec.Task.Type = "Erase" },
				field: "spec.task.type", message: `supported values: "Update", "Steps", "Backup", "Restore"`},
			{name: "an update by a cleaning policy", change: func(o *v1alpha1.FirmwareJob) {
				o.Spec.Task.CleaningPolicyRef = &v1alpha1.CleaningPolicyReference{Name: "storage"}
			},
				field: "spec.task.cleaningPolicyRef", message: "only a job of type Steps has a cleaningPolicyRef"},
			{name: "no node", change: func(o *v1alpha1.FirmwareJob) { o.Spec.NodeName = "" },
				field: "spec.nodeName", message: "Required"},
			{name: "one device twice", change: func(o *v1alpha1.FirmwareJob) {
				o.Spec.Task.Devices = append(o.Spec.Task.Devices, o.Spec.Task.Devices[0])
			}, field: "spec.task.devices[1]", message: "Duplicate value"},
			{name: "128 devices", change: func(o *v1alpha1.FirmwareJob) { repeatUpdates(o, 128) }},
			{name: "129 devices", change: func(o *v1alpha1.FirmwareJob) { repeatUpdates(o, 129) },
				field: "spec.task.devices", message: "at most 128 items"},
			{name: "an update without a digest", change: func(o *v1alpha1.FirmwareJob) { update(o).Digest = "" },
				field: "spec.task.devices", message: "each device of a job of type Update has a uniqueID, and a version with its digest, a configuration, or all of them"},
			{name: "an update of a device without its identity", change: func(o *v1alpha1.FirmwareJob) {
				update(o).UniqueID = ""
			}, field: "spec.task.devices", message: "each device of a job of type Update has a uniqueID, and a version with its digest, a configuration, or all of them"},
			{name: "a backup of all devices", change: func(o *v1alpha1.FirmwareJob) { o.Spec.Task = v1alpha1.JobTask{Type: v1alpha1.JobTypeBackup} }},
			{name: "a backup of one device", change: byPerson(v1alpha1.JobTypeBackup, v1alpha1.TaskDevice{Name: "nic"})},
			{name: "a backup of a version", change: byPerson(v1alpha1.JobTypeBackup, v1alpha1.TaskDevice{Name: "nic", Version: "1"}),
				field: "spec.task.devices", message: "a job of type Backup names its devices only; it archives what they run"},
			{name: "a restore of what was good", change: byPerson(v1alpha1.JobTypeRestore, v1alpha1.TaskDevice{Name: "nic"})},
			{name: "a restore of an image", change: byPerson(v1alpha1.JobTypeRestore, v1alpha1.TaskDevice{Name: "nic", UniqueID: "u", Version: "1", Digest: digest})},
			{name: "a restore of nothing", change: func(o *v1alpha1.FirmwareJob) { o.Spec.Task = v1alpha1.JobTask{Type: v1alpha1.JobTypeRestore} },
				field: "spec.task.devices", message: devicesMessage},
			{name: "a restore that accuses an image", change: byPerson(v1alpha1.JobTypeRestore, v1alpha1.TaskDevice{Name: "nic", Model: "15b3:101d"}),
				field: "spec.task.devices", message: "only a job of type Update has a model, an origin, a fromVersion, a rollbackDigest, a rollbackSource or a configuration"},
			{name: "an update with an image to go back to, without its digest", change: byPerson(v1alpha1.JobTypeUpdate, v1alpha1.TaskDevice{
				Name: "nic", UniqueID: "u", Version: "1", Digest: digest, RollbackSource: "old"}),
				field: "spec.task.devices", message: "a rollbackSource needs the rollbackDigest of the image in it"},
			{name: "a restore with an image to go back to", change: byPerson(v1alpha1.JobTypeRestore, v1alpha1.TaskDevice{Name: "nic", RollbackDigest: digest}),
				field: "spec.task.devices", message: "only a job of type Update has a model, an origin, a fromVersion, a rollbackDigest, a rollbackSource or a configuration"},
		})
	})
	t.Run("update", func(t *testing.T) {
		checkUpdate(t, validJob(), []change{
			{name: "a cancellation", change: func(o *v1alpha1.FirmwareJob) {
				o.Spec.Cancel = &v1alpha1.JobCancel{}
			}},
			{name: "the longest grace period", change: func(o *v1alpha1.FirmwareJob) {
				o.Spec.Cancel = &v1alpha1.JobCancel{GracePeriod: "1h"}
			}},
			{name: "a grace period too long", change: func(o *v1alpha1.FirmwareJob) {
				o.Spec.Cancel = &v1alpha1.JobCancel{GracePeriod: "1h1s"}
			}, field: "spec.cancel.gracePeriod", message: "gracePeriod must be a duration from 0s to 1h, such as 30s"},
			{name: "a grace period below zero", change: func(o *v1alpha1.FirmwareJob) {
				o.Spec.Cancel = &v1alpha1.JobCancel{GracePeriod: "-1s"}
			}, field: "spec.cancel.gracePeriod", message: "gracePeriod must be a duration from 0s to 1h, such as 30s"},
			{name: "an unknown mode", change: func(o *v1alpha1.FirmwareJob) { o.Spec.Cancel = &v1alpha1.JobCancel{Mode: "Kill"} },
				field: "spec.cancel.mode", message: `supported values: "Graceful", "Force"`},
			{name: "another node", change: func(o *v1alpha1.FirmwareJob) { o.Spec.NodeName = "gpu-018" },
				field: "spec.nodeName", message: "nodeName is immutable"},
			{name: "another type", change: func(o *v1alpha1.FirmwareJob) { o.Spec.Task = validStepsJob().Spec.Task }, field: "spec.task", message: immutable},
			{name: "another version", change: func(o *v1alpha1.FirmwareJob) { update(o).Version = "22.42.1000" },
				field: "spec.task", message: immutable},
			{name: "one more device", change: func(o *v1alpha1.FirmwareJob) { repeatUpdates(o, 2) },
				field: "spec.task", message: immutable},
		})
	})
	t.Run("update of a cancelled one", func(t *testing.T) {
		cancelled := validJob()
		cancelled.Spec.Cancel = &v1alpha1.JobCancel{}
		checkUpdate(t, cancelled, []change{
			{name: "second thoughts", change: func(o *v1alpha1.FirmwareJob) { o.Spec.Cancel = nil },
				field: "spec.cancel", message: "cancel cannot be removed once it is set"},
			{name: "force", change: func(o *v1alpha1.FirmwareJob) { o.Spec.Cancel.Mode = v1alpha1.CancelForce }},
			{name: "more grace", change: func(o *v1alpha1.FirmwareJob) { o.Spec.Cancel.GracePeriod = "1m" },
				field: "spec.cancel.gracePeriod", message: "the grace period of a cancellation cannot be changed; set mode to Force to end it"},
		})
	})
	t.Run("update of one cancelled by force", func(t *testing.T) {
		cancelled := validJob()
		cancelled.Spec.Cancel = &v1alpha1.JobCancel{Mode: v1alpha1.CancelForce}
		checkUpdate(t, cancelled, []change{
			{name: "without force", change: func(o *v1alpha1.FirmwareJob) { o.Spec.Cancel.Mode = v1alpha1.CancelGraceful },
				field: "spec.cancel.mode", message: "mode cannot be changed back from Force"},
			{name: "without a mode, which is Graceful", change: func(o *v1alpha1.FirmwareJob) { o.Spec.Cancel.Mode = "" },
				field: "spec.cancel.mode", message: "mode cannot be changed back from Force"},
		})
	})
}

func validTemplate() *v1alpha1.FirmwareTemplate {
	return &v1alpha1.FirmwareTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: "gpu-7x21"},
		Spec: v1alpha1.FirmwareTemplateSpec{Rules: []v1alpha1.FirmwareRule{{
			Name:      "cx6dx",
			Selector:  v1alpha1.DeviceSelector{Class: v1alpha1.ClassNIC, Vendor: "15b3"},
			Version:   "22.41.1000",
			SourceRef: v1alpha1.SourceReference{Name: "cx6dx-2241"},
		}}},
	}
}

func repeatRules(o *v1alpha1.FirmwareTemplate, n int) {
	for i := len(o.Spec.Rules); i < n; i++ {
		rule := o.Spec.Rules[0]
		rule.Name = fmt.Sprintf("rule-%d", i)
		o.Spec.Rules = append(o.Spec.Rules, rule)
	}
}

func validSource() *v1alpha1.FirmwareSource {
	return &v1alpha1.FirmwareSource{
		ObjectMeta: metav1.ObjectMeta{Name: "cx6dx-2241"},
		Spec: v1alpha1.FirmwareSourceSpec{Files: []v1alpha1.FirmwareFile{{
			URL:    "https://firmware.example.com/a.bin",
			Digest: digest,
			Images: []v1alpha1.ImageDescription{{Class: v1alpha1.ClassNIC, Version: "22.41.1000"}},
		}}},
	}
}

func validNodeFirmware() *v1alpha1.NodeFirmware {
	return &v1alpha1.NodeFirmware{
		ObjectMeta: metav1.ObjectMeta{Name: "gpu-017"},
		Spec: v1alpha1.NodeFirmwareSpec{Pins: []v1alpha1.FirmwareRule{{
			Name: "bios", Selector: v1alpha1.DeviceSelector{Class: v1alpha1.ClassBIOS, Vendor: "Lenovo", Models: []string{"7X21"}}, Version: "2.61.1",
			SourceRef: v1alpha1.SourceReference{Name: "lenovo-7x21-bios"},
		}}},
	}
}

func validDevice() *v1alpha1.NodeDevice {
	return &v1alpha1.NodeDevice{
		ObjectMeta: metav1.ObjectMeta{Name: "gpu-017-nic-b83fd2a1c4e0"},
		Spec: v1alpha1.NodeDeviceSpec{NodeName: "gpu-017", Firmware: &v1alpha1.DesiredFirmware{
			Version: "22.41.1000", Digest: digest, Policy: v1alpha1.PolicyApply, Downgrade: v1alpha1.DowngradeForbid,
		}, Origin: []v1alpha1.Origin{
			{Kind: v1alpha1.OriginTemplate, Name: "gpu-7x21", Rule: "cx6dx"}, {Kind: v1alpha1.OriginSource, Name: "cx6dx-2241"},
		}},
	}
}

func validJob() *v1alpha1.FirmwareJob {
	return &v1alpha1.FirmwareJob{
		ObjectMeta: metav1.ObjectMeta{Name: "gpu-017-1a2b3c4d"},
		Spec: v1alpha1.FirmwareJobSpec{
			NodeName: "gpu-017", Task: v1alpha1.JobTask{Type: v1alpha1.JobTypeUpdate, Devices: []v1alpha1.TaskDevice{{
				Name: "gpu-017-nic-b83fd2a1c4e0", UniqueID: "b83fd2a1c4e0", FromVersion: "22.39.2048",
				Version: "22.41.1000", Digest: digest,
			}}},
		},
	}
}

// byPerson makes the job one of another type.
func byPerson(kind v1alpha1.JobType, devices ...v1alpha1.TaskDevice) func(*v1alpha1.FirmwareJob) {
	return func(o *v1alpha1.FirmwareJob) { o.Spec.Task = v1alpha1.JobTask{Type: kind, Devices: devices} }
}

func repeatUpdates(o *v1alpha1.FirmwareJob, n int) {
	for i := len(o.Spec.Task.Devices); i < n; i++ {
		update := o.Spec.Task.Devices[0]
		update.Name = fmt.Sprintf("device-%d", i)
		o.Spec.Task.Devices = append(o.Spec.Task.Devices, update)
	}
}
