package v1alpha1_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	names "k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

func TestModelKey(t *testing.T) {
	for _, c := range []struct{ vendorID, deviceID, vendor, model, want string }{
		{"15B3", "101d", "Mellanox", "ConnectX-6 Dx", "15b3:101d"},
		{"15b3", "", "Mellanox", "ConnectX-6 Dx", "mellanox:connectx-6-dx"},
		{"", "", "Dell Inc.", "BIOS", "dell-inc:bios"},
		{"", "", " DELL  inc ", "Bios", "dell-inc:bios"},
		{"", "", "", "PM9A3", "any:pm9a3"},
		{"", "", "Inspur", "服务器", "inspur:any"},
		{"", "", "", "", v1alpha1.AnyModel},
		{"", "", "\u212aelvin", "\u212a", "elvin:any"},
	} {
		assert.Equal(t, c.want, v1alpha1.ModelKey(c.vendorID, c.deviceID, c.vendor, c.model), "%+v", c)
	}
}

// The name of a quarantine ends with the model, so whatever a device reports must be part of a name.
func TestModelKeyInName(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := v1alpha1.ModelKey("", "", rapid.String().Draw(t, "vendor"), rapid.String().Draw(t, "model"))
		name := strings.Repeat("0", 16) + "." + strings.ReplaceAll(key, ":", ".")
		assert.Empty(t, names.IsDNS1123Subdomain(name))
		assert.Equal(t, 1, strings.Count(key, ":"))
	})
	long := v1alpha1.ModelKey("", "", strings.Repeat("a-", 128), strings.Repeat("b", 128))
	assert.Empty(t, names.IsDNS1123Subdomain(strings.ReplaceAll(long, ":", ".")))
	assert.LessOrEqual(t, len(long), 2*112+1)
}
