package v1beta1_test

import (
	"testing"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
)

func TestMain(m *testing.M) { apitest.Main(m) }
