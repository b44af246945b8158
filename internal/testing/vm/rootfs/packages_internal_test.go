package rootfs

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

const control = `Package: sg3-utils
Version: 1.46-3
Depends: libc6 (>= 2.34), libsgutils2-1.46-2 (>= 1.46) | other, perl:any
Pre-Depends: zlib1g
Description: utilities
 Depends: nothing

Package: libc6
Version: 2.36-9
`

func TestPackagesAreReadFromControlData(t *testing.T) {
	assert.Equal(t, []Package{
		{Name: "sg3-utils", Version: "1.46-3", Depends: []string{"libc6", "libsgutils2-1.46-2", "perl", "zlib1g"}},
		{Name: "libc6", Version: "2.36-9"},
	}, parsePackages([]byte(control)))
	assert.Empty(t, parsePackages(nil))
	assert.Equal(t, "sg3-utils=1.46-3", parsePackages([]byte(control))[0].Spec())
}

func FuzzParsePackages(f *testing.F) {
	f.Add([]byte(control))
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, p := range parsePackages(raw) {
			assert.NotEmpty(t, p.Name)
			assert.NotEmpty(t, p.Version)
			assert.NotContains(t, p.Depends, "")
		}
	})
}
