package discovery

import (
	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
	"github.com/nodefirmware/node-firmware-operator/pkg/vendortool"
)

// maxTools bounds the programs that a node publishes, as the API does.
const maxTools = 32

// vendorTools are findings as the API has them; nil where there are none.
func vendorTools(found []vendortool.Finding) []v1alpha1.VendorTool {
	var out []v1alpha1.VendorTool
	for _, f := range found[:min(len(found), maxTools)] {
		out = append(out, v1alpha1.VendorTool{
			Name: text.Clip(f.Tool, 63), Version: text.Clip(string(f.Version), 64), Support: v1alpha1.ToolSupport(f.Support),
			Message: text.Clip(f.Message, 300),
		})
	}
	return out
}
