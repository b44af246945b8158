package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of every kind of this package.
const GroupName = "nodefirmware.io"

var (
	// GroupVersion is the group and version under which the kinds are served.
	GroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}

	// SchemeGroupVersion is GroupVersion under the name generated clients expect.
	SchemeGroupVersion = GroupVersion

	// SchemeBuilder registers the kinds with a runtime.Scheme.
	SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

	// AddToScheme adds the kinds to a scheme.
	AddToScheme = SchemeBuilder.AddToScheme
)

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&FirmwareTemplate{}, &FirmwareTemplateList{},
		&ConfigurationTemplate{}, &ConfigurationTemplateList{},
		&FirmwareSource{}, &FirmwareSourceList{},
		&FirmwareCatalog{}, &FirmwareCatalogList{},
		&FirmwareQuarantine{}, &FirmwareQuarantineList{},
		&RolloutPolicy{}, &RolloutPolicyList{},
		&CleaningPolicy{}, &CleaningPolicyList{},
		&NodeFirmware{}, &NodeFirmwareList{},
		&NodeDevice{}, &NodeDeviceList{},
		&FirmwareJob{}, &FirmwareJobList{},
		&SanitizationCertificate{}, &SanitizationCertificateList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
