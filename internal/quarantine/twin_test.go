package quarantine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/quarantine"
)

// Two sources hold an image, and only one of them has room for all reports. The jobs are gone.
func TestALiftIncludesWhatOnlyAnotherSourceLists(t *testing.T) {
	roomy, tight := source("roomy", 1), source("tight", 1)
	all := jobs(failing("j1", 1, model, 1), on("p/n2", failing("j2", 1, model, 2)))
	record(&roomy, all...)
	record(&tight, all...)
	e := &tight.Status.Quarantine[0]
	require.Equal(t, v1alpha1.QuarantineFleet, e.Scope)
	e.Reports, e.Policies, e.ReportsNotListed = e.Reports[:1], nil, 1
	tight.Spec.LiftQuarantine = "it was the switch"
	set := compute(nil, roomy, tight)
	assert.False(t, blocks(set, 1, model))
	roomy.Status.Quarantine, _ = set.Listed(&roomy)
	tight.Status.Quarantine, _ = set.Listed(&tight)
	assert.False(t, blocks(compute(nil, roomy, tight), 1, model), "and stays lifted")
}

// Two sources hold the same images, and one of them has no room for long messages: it keeps them short, whichever is read first.
func TestASourceWithoutRoomStaysSmallBesideOneWithRoom(t *testing.T) {
	roomy, tight := source("roomy"), source("tight")
	var all []*v1alpha1.FirmwareJob
	for i := range quarantine.MaxListed {
		j := failing(fmt.Sprintf("j%03d", i), i, model, i)
		j.Status.Blamed[0].Message = fmt.Sprintf("%d%s", i, strings.Repeat("m", 500))
		all = append(all, j)
		image := v1alpha1.StoredImage{Version: "1", Digest: digest(i)}
		tight.Status.Images = append(tight.Status.Images, image)
		if i%4 == 0 {
			roomy.Status.Images = append(roomy.Status.Images, image)
		}
	}
	for range 3 {
		set := compute(all, roomy, tight)
		require.Equal(t, set, compute(all, tight, roomy), "the order of sources changes nothing")
		roomy.Status.Quarantine, _ = set.Listed(&roomy)
		tight.Status.Quarantine, _ = set.Listed(&tight)
		require.LessOrEqual(t, sizeOf(t, tight.Status.Quarantine), quarantine.MaxSize+2)
		assert.Len(t, tight.Status.Quarantine, quarantine.MaxListed)
		assert.False(t, slices.ContainsFunc(roomy.Status.Quarantine, func(e v1alpha1.QuarantinedImage) bool { return len(e.Message) < 500 }))
	}
}
