package v1alpha1

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
)

// OriginKind is the kind of an object that what a device should be comes from.
// +kubebuilder:validation:Enum=FirmwareTemplate;ConfigurationTemplate;NodeFirmware;FirmwareSource
type OriginKind string

// The kinds of objects that firmware and settings come from.
const (
	// OriginTemplate is a FirmwareTemplate with one of its rules.
	OriginTemplate OriginKind = "FirmwareTemplate"
	// OriginConfiguration is a ConfigurationTemplate with one of its rules.
	OriginConfiguration OriginKind = "ConfigurationTemplate"
	// OriginPin is the NodeFirmware of the node with one of its pins.
	OriginPin OriginKind = "NodeFirmware"
	// OriginSource is the FirmwareSource that the image is from.
	OriginSource OriginKind = "FirmwareSource"
)

// Origin names one object that the desired firmware or settings of a device come from, and the part of it that matters.
type Origin struct {
	// kind of the object: FirmwareTemplate, ConfigurationTemplate, NodeFirmware (for a pin) or FirmwareSource.
	// +required
	Kind OriginKind `json:"kind,omitempty"`
	// name of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// uid of the object, to distinguish a recreated object from the original. Absent for a FirmwareSource that does not exist.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	UID string `json:"uid,omitempty"`
	// generation is the object's first generation in which the part that matters has this content. It is for people; only the hash is
	// compared.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Generation int64 `json:"generation,omitempty"`
	// rule is the name of the template's rule or of the pin. Absent for a FirmwareSource.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Rule string `json:"rule,omitempty"`
	// hash is that of the content that matters: version and source of the rule or pin, the settings of the rule, or the image of the
	// source, of whose digest it is the first digits. Absent while there is no image.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{16}$`
	Hash string `json:"hash,omitempty"`
}

// ContentHash is the hash of an Origin for the parts of its content.
func ContentHash(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:8])
}

// ImageHash is the hash of the Origin of an image: the first digits of its digest.
func ImageHash(d Digest) string {
	_, hex, _ := strings.Cut(string(d), ":")
	return hex[:min(len(hex), 16)]
}

// AssignedBy is the template or pin that firmware comes from; nil when the origin names none.
func AssignedBy(origin []Origin) *Origin {
	return findOrigin(origin, func(o Origin) bool { return o.Kind == OriginTemplate || o.Kind == OriginPin })
}

// ConfiguredBy is the template that settings come from; nil when the origin names none.
func ConfiguredBy(origin []Origin) *Origin {
	return findOrigin(origin, func(o Origin) bool { return o.Kind == OriginConfiguration })
}

// ImageFrom is the source of an origin; nil when it names none.
func ImageFrom(origin []Origin) *Origin {
	return findOrigin(origin, func(o Origin) bool { return o.Kind == OriginSource })
}

// SplitOrigin tells the objects that firmware comes from and those that settings come from.
func SplitOrigin(origin []Origin) (firmware, settings []Origin) {
	for _, o := range origin {
		if o.Kind == OriginConfiguration {
			settings = append(settings, o)
		} else {
			firmware = append(firmware, o)
		}
	}
	return firmware, settings
}

func findOrigin(origin []Origin, is func(Origin) bool) *Origin {
	if i := slices.IndexFunc(origin, is); i >= 0 {
		return &origin[i]
	}
	return nil
}

// SourceName is the name of the source that the image of a device is from; empty when there is none.
func (s *NodeDeviceSpec) SourceName() string {
	if o := ImageFrom(s.Origin); o != nil {
		return o.Name
	}
	return ""
}

// ObsoleteReason says what happened to an object that firmware came from.
// +kubebuilder:validation:Enum=Updated;Recreated;Deleted;Superseded
type ObsoleteReason string

// The reasons.
const (
	// ObsoleteUpdated: the rule or pin asks for something else, or the source holds another image.
	ObsoleteUpdated ObsoleteReason = "Updated"
	// ObsoleteRecreated: another object has its name.
	ObsoleteRecreated ObsoleteReason = "Recreated"
	// ObsoleteDeleted: the object, or the rule or pin in it, is gone.
	ObsoleteDeleted ObsoleteReason = "Deleted"
	// ObsoleteSuperseded: the object is as it was, and another one assigns other firmware to the device now.
	ObsoleteSuperseded ObsoleteReason = "Superseded"
)

// ObsoleteReference is an object that running firmware, or settings in force, came from and that is not as it was.
type ObsoleteReference struct {
	// kind of the object: FirmwareTemplate, ConfigurationTemplate, NodeFirmware or FirmwareSource.
	// +required
	Kind OriginKind `json:"kind,omitempty"`
	// name of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// rule is the name of the template's rule or of the pin. Absent for a FirmwareSource.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Rule string `json:"rule,omitempty"`
	// reason is Updated (another content), Recreated (another uid), Deleted (the object, or the rule or pin in it, is gone) or
	// Superseded (it is as it was, and another object assigns other firmware now).
	// +required
	Reason ObsoleteReason `json:"reason,omitempty"`
}
