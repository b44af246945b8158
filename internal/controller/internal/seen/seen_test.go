package seen_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/nodefirmware/node-firmware-operator/internal/controller/internal/seen"
)

func TestWhatIsListedKeepsItsFirstTimeAndTheRestIsForgotten(t *testing.T) {
	var s seen.Seen[string]
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	assert.Equal(t, map[string]time.Time{"a": noon}, s.Note("n", []string{"a"}, noon))
	later := noon.Add(time.Minute)
	assert.Equal(t, map[string]time.Time{"a": noon, "b": later}, s.Note("n", []string{"a", "b"}, later))
	assert.Equal(t, map[string]time.Time{"a": later}, s.Note("other", []string{"a"}, later), "each node has its own")
	assert.Equal(t, map[string]time.Time{"a": noon, "b": later}, s.Since("n"), "what was noted last")
	assert.Equal(t, map[string]time.Time{"b": later}, s.Note("n", []string{"b"}, later.Add(time.Minute)))
	assert.Equal(t, map[string]time.Time{"b": later}, s.Since("n"), "what is not listed is forgotten")
	assert.Empty(t, s.Note("n", nil, later))
	assert.Empty(t, s.Since("n"))
	assert.Equal(t, map[string]time.Time{"a": later}, s.Note("n", []string{"a"}, later))
}
