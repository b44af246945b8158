package kubectl

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"regexp"

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

// deviceReader reads NodeDevices with a decoder of its own: that of the other kinds goes through each page several times and makes all of each device.
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

// List reads one page of NodeDevices with that decoder, and other kinds as the client does that it was made of.
func (r *deviceReader) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	devices, are := list.(*v1alpha1.NodeDeviceList)
	if !are {
		return r.Client.List(ctx, list, options...)
	}
	var asked client.ListOptions
	asked.ApplyOptions(options)
	p, body := &devicePage[v1alpha1.NodeDevice]{decoded: make(chan struct{})}, new(bytes.Buffer)
	if err := r.read(ctx, asked.AsListOptions(), body); err != nil {
		return err
	}
	p.decode(body.Bytes())
	devices.ListMeta, devices.Items = p.Metadata, p.Items
	return p.err
}

// devicePage is a page of the devices, with what D has of each.
type devicePage[D any] struct {
	Kind     string          `json:"kind"`
	Metadata metav1.ListMeta `json:"metadata"`
	Items    []D             `json:"items"`

	err     error
	decoded chan struct{}
}

// decodeAs skips what the API server notes of fields. Names in an object are what it wrote: that none is there twice need not be looked at again.
var decodeAs = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true),
	json.WithUnmarshalers(json.UnmarshalFromFunc(func(in *jsontext.Decoder, _ *[]metav1.ManagedFieldsEntry) error { return in.SkipValue() })))

func (p *devicePage[D]) decode(body []byte) {
	defer close(p.decoded)
	p.Items = make([]D, 0, reading.PageSize)
	if err := json.Unmarshal(body, p, decodeAs); err != nil {
		p.err = fmt.Errorf("read NodeDevices: %w", err)
	} else if p.Kind != "NodeDeviceList" { // a proxy may answer in place of the API server
		p.err = fmt.Errorf("read NodeDevices: the answer is of kind %.64q, want NodeDeviceList", p.Kind)
	}
}

var continued = regexp.MustCompile(`"continue":"([^"\\]+)"`)

// nextOf finds in a page what to ask for the next one with, before the page is decoded; empty for not found. What is said of the list is before the items or after them.
func nextOf(body []byte) string {
	head, _, _ := bytes.Cut(body, []byte(`"items"`))
	for _, around := range [][]byte{head, body[bytes.LastIndexByte(body, ']')+1:]} {
		if found := continued.FindSubmatch(around); found != nil {
			return string(found[1])
		}
	}
	return ""
}

// pagesAtOnce bounds the pages that are read or decoded at once.
const pagesAtOnce = 3

// ask sends the pages in their order. They are decoded while others are read.
func ask[D any](ctx context.Context, r *deviceReader, fieldsAre fields.Set, pages chan<- *devicePage[D]) {
	defer close(pages)
	asked, free := metav1.ListOptions{Limit: reading.PageSize}, make(chan *bytes.Buffer, pagesAtOnce)
	if len(fieldsAre) > 0 {
		asked.FieldSelector = fieldsAre.AsSelector().String()
	}
	for range pagesAtOnce {
		free <- new(bytes.Buffer)
	}
	for more := true; more; more = asked.Continue != "" {
		p, body := &devicePage[D]{decoded: make(chan struct{})}, <-free
		body.Reset()
		p.err = r.read(ctx, &asked, body)
		if asked.Continue = ""; p.err != nil {
			close(p.decoded)
		} else {
			asked.Continue = nextOf(body.Bytes())
			go func() {
				p.decode(body.Bytes())
				free <- body
			}()
		}
		select {
		case pages <- p:
		case <-ctx.Done():
			return
		}
		if asked.Continue == "" {
			<-p.decoded
			asked.Continue = p.Metadata.Continue
		}
	}
}

// read reads the answer to one request.
func (r *deviceReader) read(ctx context.Context, asked *metav1.ListOptions, into *bytes.Buffer) error {
	body, err := r.group.Get().Resource("nodedevices").VersionedParams(asked, metav1.ParameterCodec).SetHeader("Accept", "application/json").Stream(ctx)
	if err != nil {
		return err
	}
	defer body.Close()
	if _, err := into.ReadFrom(body); err != nil {
		return fmt.Errorf("read NodeDevices: %w", err)
	}
	return nil
}

// eachPage calls do for every device that has those fields, in the order of the API server.
func eachPage[D any](ctx context.Context, r *deviceReader, fieldsAre fields.Set, do func(*D) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	pages := make(chan *devicePage[D])
	go ask(ctx, r, fieldsAre, pages)
	for p := range pages {
		<-p.decoded
		if err := cmp.Or(ctx.Err(), p.err); err != nil {
			return err
		}
		for i := range p.Items {
			if err := do(&p.Items[i]); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
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

// eachDevice calls do for every device that has those fields.
func eachDevice(ctx context.Context, c client.Reader, fieldsAre fields.Set, do func(*v1alpha1.NodeDevice) error) error {
	if r, is := c.(*deviceReader); is {
		return eachPage(ctx, r, fieldsAre, do)
	}
	return reading.Each(ctx, c, &v1alpha1.NodeDeviceList{}, fieldsAre, do)
}

// eachBrief does so with devices that have what briefDevice has, and are others after do.
func eachBrief(ctx context.Context, c client.Reader, fieldsAre fields.Set, do func(*v1alpha1.NodeDevice) error) error {
	r, is := c.(*deviceReader)
	if !is {
		return reading.Each(ctx, c, &v1alpha1.NodeDeviceList{}, fieldsAre, do)
	}
	var d v1alpha1.NodeDevice
	return eachPage(ctx, r, fieldsAre, func(b *briefDevice) error {
		b.into(&d)
		return do(&d)
	})
}

func (b *briefDevice) into(to *v1alpha1.NodeDevice) {
	s, conditions := &b.Status, to.Status.Conditions[:0]
	to.Name, to.Spec.NodeName, to.Spec.Firmware = b.Metadata.Name, b.Spec.NodeName, nil
	if b.Spec.Firmware != nil {
		to.Spec.Firmware = &v1alpha1.DesiredFirmware{Version: b.Spec.Firmware.Version}
	}
	for _, c := range s.Conditions {
		conditions = append(conditions, metav1.Condition{Type: c.Type, Status: c.Status, Reason: c.Reason, Message: c.Message})
	}
	to.Status = v1alpha1.NodeDeviceStatus{Class: s.Class, UniqueID: s.UniqueID, Vendor: s.Vendor, Model: s.Model, PCIID: s.PCIID, SubsystemID: s.SubsystemID,
		BoardID: s.BoardID, SerialNumber: s.SerialNumber, PCIAddress: s.PCIAddress, PowerOnHours: s.PowerOnHours, PowerOnHoursTime: s.PowerOnTime, Conditions: conditions}
	if s.Firmware != nil {
		to.Status.Firmware = &v1alpha1.ObservedFirmware{Running: s.Firmware.Running, Stored: s.Firmware.Stored}
	}
}
