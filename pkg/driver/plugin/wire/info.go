package wire

import (
	"errors"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver/plugin"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/plugin/v1"
)

// InfoFrom translates and checks a plugin's info from a message.
func InfoFrom(m *pluginv1.GetInfoResponse) (plugin.Info, error) {
	info := plugin.Info{Name: m.GetName(), Version: m.GetVersion()}
	var errs []error
	for _, match := range m.GetMatches() {
		info.Matches = append(info.Matches, plugin.Match{
			Class: keep(&errs, classes.from, match.GetClass()), Support: keep(&errs, supports.from, match.GetSupport()),
			Vendors: match.GetVendors(), VendorIDs: match.GetVendorIds(), DeviceIDs: match.GetDeviceIds(), Models: match.GetModels(),
			Transports: match.GetTransports(), Kernel: match.GetKernelDrivers(),
		})
	}
	if err := errors.Join(append(errs, info.Check())...); err != nil {
		return plugin.Info{}, err
	}
	return info, nil
}

// InfoTo checks a plugin's info and translates it into a message.
func InfoTo(info plugin.Info) (*pluginv1.GetInfoResponse, error) {
	if err := info.Check(); err != nil {
		return nil, err
	}
	m := &pluginv1.GetInfoResponse{Status: OK(), Name: info.Name, Version: info.Version}
	for _, match := range info.Matches {
		class, err := classes.to(match.Class)
		support, err2 := supports.to(match.Support)
		if err := errors.Join(err, err2); err != nil {
			return nil, err
		}
		m.Matches = append(m.Matches, &pluginv1.Match{
			Class: class, Support: support, Vendors: match.Vendors, VendorIds: match.VendorIDs, DeviceIds: match.DeviceIDs,
			Models: match.Models, Transports: match.Transports, KernelDrivers: match.Kernel,
		})
	}
	return m, nil
}
