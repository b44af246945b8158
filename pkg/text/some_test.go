package text_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

func TestSomeNamesTheFirstFew(t *testing.T) {
	assert.Empty(t, text.Some(nil, 2))
	assert.Equal(t, "a, b", text.Some([]string{"a", "b"}, 2))
	assert.Equal(t, "a, b and 2 more", text.Some([]string{"a", "b", "c", "d"}, 2))
}
