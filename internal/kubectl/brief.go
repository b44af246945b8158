package kubectl

import (
	"context"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/reading"
)

// briefly asks of NodeDevices for what briefDevice has alone. A client that does not know it lists whole ones.
type briefly struct{}

// ApplyToList changes nothing of what the API server is asked.
func (briefly) ApplyToList(*client.ListOptions) {}

// deviceReader reads lists of NodeDevices a page after the other with a decoder of its own: that of the other kinds goes through each page several times and makes all of each device.
type deviceReader struct {
	client.Client
	group rest.Interface
}

// newDeviceReader makes a client out of another one of the same API server.
func newDeviceReader(api client.Client, config *rest.Config) (client.Client, error) {
	config = rest.CopyConfig(config)
	config.APIPath, config.GroupVersion, config.NegotiatedSerializer = "/apis", &v1alpha1.GroupVersion, clientgoscheme.Codecs.WithoutConversion()
	transport, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	group, err := rest.RESTClientForConfigAndClient(config, transport)
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	return &deviceReader{api, group}, nil
}

// List reads NodeDevices without what the API server notes of their fields, and other kinds as the client does that it was made of.
func (r *deviceReader) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	devices, are := list.(*v1alpha1.NodeDeviceList)
	if !are {
		return r.Client.List(ctx, list, options...)
	}
	devices.Kind = ""
	var asked client.ListOptions
	asked.ApplyOptions(options)
	body, err := r.group.Get().Resource("nodedevices").VersionedParams(asked.AsListOptions(), metav1.ParameterCodec).SetHeader("Accept", "application/json").Stream(ctx)
	if err != nil {
		return err
	}
	defer body.Close()
	// Names in an object are what the API server wrote: that none is there twice need not be looked at again.
	as := []json.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}
	if !slices.Contains(options, client.ListOption(briefly{})) {
		as = append(as, json.WithUnmarshalers(json.UnmarshalFromFunc(func(in *jsontext.Decoder, _ *[]metav1.ManagedFieldsEntry) error { return in.SkipValue() })))
		err = json.UnmarshalRead(body, devices, as...)
	} else {
		var brief briefList
		err = json.UnmarshalRead(body, &brief, as...)
		brief.into(devices)
	}
	switch {
	case err != nil:
		return fmt.Errorf("read NodeDevices: %w", err)
	case devices.Kind != "NodeDeviceList": // a proxy may answer in place of the API server
		return fmt.Errorf("read NodeDevices: the answer is of kind %.64q, want NodeDeviceList", devices.Kind)
	}
	return nil
}

// briefList is a page of devices.
type briefList struct {
	Kind     string          `json:"kind"`
	Metadata metav1.ListMeta `json:"metadata"`
	Items    []briefDevice   `json:"items"`
}

// briefDevice is what the verbs print of a device where there are many, under the names that NodeDevice has for it.
type briefDevice struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		NodeName string `json:"nodeName"`
		Firmware *struct {
			Version string `json:"version"`
		} `json:"firmware"`
	} `json:"spec"`
	Status struct {
		Class        v1alpha1.DeviceClass `json:"class"`
		UniqueID     string               `json:"uniqueID"`
		Vendor       string               `json:"vendor"`
		Model        string               `json:"model"`
		PCIID        string               `json:"pciID"`
		SubsystemID  string               `json:"subsystemID"`
		BoardID      string               `json:"boardID"`
		SerialNumber string               `json:"serialNumber"`
		PCIAddress   string               `json:"pciAddress"`
		PowerOnHours *int64               `json:"powerOnHours"`
		PowerOnTime  *metav1.Time         `json:"powerOnHoursTime"`
		Firmware     *struct {
			Running string `json:"running"`
			Stored  string `json:"stored"`
		} `json:"firmware"`
		Conditions []struct {
			Type    string                 `json:"type"`
			Status  metav1.ConditionStatus `json:"status"`
			Reason  string                 `json:"reason"`
			Message string                 `json:"message"`
		} `json:"conditions"`
	} `json:"status"`
}

// eachBrief calls do for every device that has those fields, of which it has what briefDevice has.
func eachBrief(ctx context.Context, c client.Reader, fieldsAre fields.Set, do func(*v1alpha1.NodeDevice) error) error {
	chosen := client.ListOptions{}
	if len(fieldsAre) > 0 {
		chosen.FieldSelector = fieldsAre.AsSelector()
	}
	return reading.EachOf(ctx, c, &v1alpha1.NodeDeviceList{}, chosen, do, briefly{})
}

func (b *briefList) into(list *v1alpha1.NodeDeviceList) {
	list.Kind, list.ListMeta, list.Items = b.Kind, b.Metadata, make([]v1alpha1.NodeDevice, len(b.Items))
	for i := range b.Items {
		from, to := &b.Items[i], &list.Items[i]
		to.Name, to.Spec.NodeName = from.Metadata.Name, from.Spec.NodeName
		if from.Spec.Firmware != nil {
			to.Spec.Firmware = &v1alpha1.DesiredFirmware{Version: from.Spec.Firmware.Version}
		}
		s := &from.Status
		to.Status = v1alpha1.NodeDeviceStatus{Class: s.Class, UniqueID: s.UniqueID, Vendor: s.Vendor, Model: s.Model, PCIID: s.PCIID, SubsystemID: s.SubsystemID,
			BoardID: s.BoardID, SerialNumber: s.SerialNumber, PCIAddress: s.PCIAddress, PowerOnHours: s.PowerOnHours, PowerOnHoursTime: s.PowerOnTime}
		if s.Firmware != nil {
			to.Status.Firmware = &v1alpha1.ObservedFirmware{Running: s.Firmware.Running, Stored: s.Firmware.Stored}
		}
		for _, c := range s.Conditions {
			to.Status.Conditions = append(to.Status.Conditions, metav1.Condition{Type: c.Type, Status: c.Status, Reason: c.Reason, Message: c.Message})
		}
	}
}
