package quarantine_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/quarantine"
)

func sizeOf(t require.TestingT, list []v1alpha1.QuarantinedImage) int {
	out, err := json.Marshal(list)
	require.NoError(t, err)
	return len(out)
}

// long is a name of 200 bytes that begins with what tells it from others.
func long(format string, args ...any) string {
	s := fmt.Sprintf(format, args...)
	return s + strings.Repeat("x", 200-len(s))
}

// Sixty images fail on many nodes with long names. What the source has no room for, its jobs still report.
func TestAFullListStaysSmallAndLosesNoQuarantine(t *testing.T) {
	const images, nodes = 60, 12
	src := source("s")
	src.Spec.LiftQuarantine = strings.Repeat("l", 128)
	var all []*v1alpha1.FirmwareJob
	for i := range images {
		src.Status.Images = append(src.Status.Images, v1alpha1.StoredImage{Version: "1", Digest: digest(i)})
		for n := range nodes {
			j := failing(long("j%03d-%02d", i, n), i, "15b3:"+long("%d", i), i*nodes+n)
			on(long("p%d/n%d", n%3, n), j)
			j.Status.Blamed[0].Message = strings.Repeat("m", 512)
			if i%3 == 0 {
				network(j)
			}
			all = append(all, j)
		}
	}
	record(&src, all...)
	set := compute(all, src)
	listed, more := set.Listed(&src)
	assert.Equal(t, src.Status.Quarantine, listed, "a second pass writes nothing")
	assert.Less(t, sizeOf(t, listed), quarantine.MaxSize)
	assert.Equal(t, images, len(listed)+more)
	assert.Greater(t, len(listed), 30)
	left := 0
	for _, e := range listed {
		left += int(e.ReportsNotListed)
	}
	assert.Positive(t, left, "the list says how many reports it leaves out")

	var kept []*v1alpha1.FirmwareJob // the others may be deleted
	for _, j := range all {
		if !quarantine.Recorded(j, []v1alpha1.FirmwareSource{src}) {
			kept = append(kept, j)
		}
	}
	assert.Less(t, len(kept), len(all))
	after := compute(kept, src)
	for i := range images {
		for n := range nodes {
			pool, _, _ := strings.Cut(long("p%d/n%d", n%3, n), "/")
			m := "15b3:" + long("%d", i)
			require.Equal(t, blocksOn(set, i, m, pool), blocksOn(after, i, m, pool), "image %d in %s", i, pool)
		}
	}

	src.Spec.LiftQuarantine = "it was the switch"
	for range 3 {
		lifted := compute(kept, src)
		src.Status.Quarantine, _ = lifted.Listed(&src)
		var rest []*v1alpha1.FirmwareJob
		for _, j := range kept {
			if !quarantine.Recorded(j, []v1alpha1.FirmwareSource{src}) {
				rest = append(rest, j)
			}
		}
		kept = rest
		assert.Less(t, sizeOf(t, src.Status.Quarantine), quarantine.MaxSize)
	}
}

// An earlier version listed more than fits now, and the jobs are gone: nothing goes that keeps an image from a node.
func TestWhatAnEarlierVersionListedStays(t *testing.T) {
	src := source("s")
	for i := range 80 {
		e := v1alpha1.QuarantinedImage{Digest: digest(i), Model: model, Version: "1", Scope: v1alpha1.QuarantinePolicies, Since: at(0), NodeName: "n", Job: "j"}
		for r := range 6 {
			e.Policies = append(e.Policies, long("p%d", r))
			e.Reports = append(e.Reports, v1alpha1.QuarantineReport{Job: long("j%d-%d", i, r), NodeName: long("n%d", r), Policy: long("p%d", r), Evidence: v1alpha1.EvidenceNetwork})
		}
		src.Status.Quarantine = append(src.Status.Quarantine, e)
	}
	require.Greater(t, sizeOf(t, src.Status.Quarantine), 2*quarantine.MaxSize)
	listed, more := compute(nil, src).Listed(&src)
	require.Len(t, listed, 80)
	assert.Zero(t, more)
	for i := range 80 {
		assert.Equal(t, src.Status.Quarantine[i].Policies, listed[i].Policies)
		assert.Len(t, listed[i].Reports, 6)
	}
}

// A lift is for what the list leaves out as well.
func TestALiftIncludesTheReportsThatAreNotListed(t *testing.T) {
	src := source("s", 1)
	j := failing("j1", 1, model, 1)
	record(&src, j)
	src.Status.Quarantine[0].ReportsNotListed = 1
	src.Spec.LiftQuarantine = "it was the switch"
	assert.False(t, blocks(compute(jobs(j, failing("j2", 1, model, 2)), src), 1, model))
	src.Status.Quarantine[0].ReportsNotListed = 0
	assert.True(t, blocks(compute(jobs(j, failing("j2", 1, model, 2)), src), 1, model))
}

// Whatever is reported, and however often it is written down meanwhile, the list stays within its bound, drops no entry that it
// had, and forgets nothing that its jobs do not tell.
func TestNoReportIsLostForLackOfRoom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		src := source("s")
		images := rapid.IntRange(20, 70).Draw(t, "images")
		for i := range images {
			src.Status.Images = append(src.Status.Images, v1alpha1.StoredImage{Version: "1", Digest: digest(i)})
		}
		var alive, ever []*v1alpha1.FirmwareJob
		for i := range rapid.IntRange(60, 200).Draw(t, "jobs") {
			image, n := rapid.IntRange(0, images-1).Draw(t, "image"), rapid.IntRange(0, 5).Draw(t, "node")
			j := on(long("p%d/n%d", n%3, n), failing(long("j%03d", i), image, model, i))
			if rapid.IntRange(0, 3).Draw(t, "evidence") > 0 {
				network(j)
			}
			alive, ever = append(alive, j), append(ever, j)
			if rapid.IntRange(0, 9).Draw(t, "written") > 0 {
				continue
			}
			had := len(src.Status.Quarantine)
			record(&src, alive...)
			require.GreaterOrEqual(t, len(src.Status.Quarantine), had)
			require.LessOrEqual(t, sizeOf(t, src.Status.Quarantine), quarantine.MaxSize+2)
			var kept []*v1alpha1.FirmwareJob
			for _, j := range alive {
				if !quarantine.Recorded(j, []v1alpha1.FirmwareSource{src}) {
					kept = append(kept, j)
				}
			}
			alive = kept
		}
		want, got := compute(ever), compute(alive, src)
		for i := range images {
			for _, pool := range []string{"p0", "p1", "p2", "q"} {
				require.Equal(t, blocksOn(want, i, model, pool), blocksOn(got, i, model, pool), "image %d in %s", i, pool)
			}
		}
	})
}
