package luks_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/luks"
)

// header is the beginning of a file that cryptsetup 2.6 formatted, with two keys and the token of the name.
func header(t testing.TB, name string) []byte {
	t.Helper()
	f, err := os.Open("testdata/" + name + ".header.gz")
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	data, err := io.ReadAll(z)
	require.NoError(t, err)
	return data
}

func read(t testing.TB, data []byte) luks.Header {
	t.Helper()
	h, err := luks.Read(bytes.NewReader(data))
	require.NoError(t, err)
	return h
}

var systemFirmware, optionROM = []int{0, 1, 2, 3, 7}, []int{2, 3}

func TestRealHeaders(t *testing.T) {
	for name, c := range map[string]struct {
		keys int
		// bios and nic are in what is lost with such an update; empty for nothing.
		bios, nic string
	}{
		"passphrase": {2, "", ""},
		"systemd":    {1, "only by a person", ""},
		"only":       {0, "nothing would open it", "nothing would open it"},
		"clevis":     {1, "token 0 (clevis)", ""},
		"shared":     {1, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := read(t, header(t, name))
			assert.Equal(t, "6f4c1d2e-0b1a-4c7e-9a55-1f2e3d4c5b6a", h.UUID)
			assert.Equal(t, c.keys, h.Keys)
			for changed, want := range map[*[]int]string{&systemFirmware: c.bios, &optionROM: c.nic} {
				if want == "" {
					assert.Empty(t, h.Lost(*changed))
				}
				assert.Contains(t, h.Lost(*changed), want)
			}
		})
	}
}

func TestAHeaderHasTwoCopies(t *testing.T) {
	whole := header(t, "systemd")
	for name, at := range map[string]int{"the first": 5000, "the beginning": 0, "the second": 16384 + 5000} {
		data := slices.Clone(whole)
		data[at] ^= 1
		assert.Equal(t, read(t, whole), read(t, data), "%s is damaged", name)
	}
	both := slices.Clone(whole)
	both[5000] ^= 1
	both[16384+5000] ^= 1
	_, err := luks.Read(bytes.NewReader(both))
	require.ErrorContains(t, err, "its checksum is wrong")
	_, err = luks.Read(bytes.NewReader(make([]byte, 8<<20)))
	require.Error(t, err, "a disk without a header is no disk without secrets")
	_, err = luks.Read(bytes.NewReader(nil))
	require.Error(t, err)
}

func TestWhatOpensADisk(t *testing.T) {
	for name, c := range map[string]struct {
		of   luks.Header
		want string
	}{
		"another token":          {luks.Header{Ways: []luks.Way{{Name: "a", PCRs: []int{7}}, {Name: "b", PCRs: []int{11}}}}, ""},
		"a PIN and no other key": {luks.Header{Ways: []luks.Way{{Name: "a", PCRs: []int{7}, Attended: true}}}, "nothing would open it"},
		"a PIN and a passphrase": {luks.Header{Keys: 1, Ways: []luks.Way{{Name: "a", PCRs: []int{7}, Attended: true}}}, ""},
		"a policy elsewhere":     {luks.Header{Keys: 1, Ways: []luks.Way{{Name: "a", Policy: true}}}, "only by a person"},
		"a recovery key":         {luks.Header{Ways: []luks.Way{{Name: "a", PCRs: []int{2}}, {Name: "b", Attended: true}}}, "because a depends"},
		"a share, or a person":   {luks.Header{Ways: []luks.Way{{Name: "a", Shares: 1, Of: []luks.Way{{PCRs: []int{3}}, {Attended: true}}}}}, "because a depends"},
		"both shares":            {luks.Header{Keys: 1, Ways: []luks.Way{{Name: "a", Shares: 2, Of: []luks.Way{{PCRs: []int{3}}, {}}}}}, "only by a person"},
	} {
		t.Run(name, func(t *testing.T) {
			got := c.of.Lost(systemFirmware)
			assert.Contains(t, got, c.want)
			assert.Equal(t, c.want == "", got == "", got)
		})
	}
}

// What an update that changes more registers, or a disk with fewer ways, may never be: less refused.
func TestLostProperties(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	some := func() []int {
		var out []int
		for range r.IntN(4) {
			out = append(out, r.IntN(12))
		}
		return out
	}
	for range 20000 {
		h := luks.Header{Keys: r.IntN(2)}
		for range r.IntN(4) {
			w := luks.Way{Name: "w", PCRs: some(), Policy: r.IntN(6) == 0, Attended: r.IntN(4) == 0}
			if r.IntN(4) == 0 {
				w = luks.Way{Name: "w", Shares: 1 + r.IntN(2), Of: []luks.Way{w, {PCRs: some()}}}
			}
			h.Ways = append(h.Ways, w)
		}
		changed := some()
		require.Empty(t, h.Lost(nil), "nothing changes: %+v", h)
		if h.Lost(changed) != "" {
			require.NotEmpty(t, h.Lost(append(some(), changed...)), "%+v %v", h, changed)
			without := luks.Header{Keys: h.Keys, Ways: append([]luks.Way{{Name: "tang"}}, h.Ways...)}
			require.Empty(t, without.Lost(changed), "a way that depends on nothing: %+v", h)
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, name := range []string{"passphrase", "systemd", "only", "clevis", "shared"} {
		f.Add(header(f, name))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if h, err := luks.Read(bytes.NewReader(data)); err == nil {
			assert.Empty(t, h.Lost(nil))
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"keyslots":{"0":{"type":"luks2"}},"tokens":{"0":{"type":"systemd-tpm2","keyslots":["0"],"tpm2-pcrs":[7]}},"digests":{"0":{"keyslots":["0"],"segments":["0"]}}}`))
	f.Add([]byte(`{"keyslots":{"0":{"type":"luks2"}},"tokens":{"0":{"type":"clevis","keyslots":["0"],"jwe":{"protected":"e30"}}},"digests":{"0":{"keyslots":["0"],"segments":["0"]}}}`))
	f.Fuzz(func(t *testing.T, area []byte) {
		if h, err := luks.Parse(area); err == nil {
			assert.Empty(t, h.Lost(nil))
		}
	})
}

// What nobody understands may be bound to the TPM. It takes nothing from the ways that are known.
func TestATokenThatIsNotUnderstoodIsNoWayAfterAChange(t *testing.T) {
	const (
		rest = `,"keyslots":["0"]}`
		end  = `},"keyslots":{"0":{"type":"luks2"},"1":{"type":"luks2"}},"digests":{"0":{"keyslots":["0","1"],"segments":["0"]}}}`
		tang = `,"1":{"type":"clevis","jwe":{"protected":"eyJjbGV2aXMiOnsicGluIjoidGFuZyJ9fQ"},"keyslots":["1"]}`
		// either shares between pins that are not known and tang.
		either = `"type":"clevis","jwe":{"protected":"eyJjbGV2aXMiOnsicGluIjoic3NzIiwic3NzIjp7InQiOjEsImp3ZSI6WyJleUpqYkdWMmFYTWlPbnNpY0dsdUlqb2lZV050WlNKOWZRLi4uLiIsImV5SmpiR1YyYVhNaU9uc2ljR2x1SWpvaWRHRnVaeUo5ZlEuLi4uIl19fX0"}`
	)
	parse := func(tokens string) luks.Header {
		h, err := luks.Parse([]byte(`{"tokens":{"0":{` + tokens + end))
		require.NoError(t, err)
		return h
	}
	for name, token := range map[string]string{
		"a kind of token": `"type":"acme"`, "no PCRs": `"type":"systemd-tpm2"`, "a PCR": `"type":"systemd-tpm2","tpm2-pcrs":[24]`,
		"a PIN of clevis": `"type":"clevis","jwe":{"protected":"e30"}`, "no JWE": `"type":"clevis","jwe":{"protected":"?"}`,
	} {
		alone := parse(token + rest)
		assert.True(t, alone.Unattended(nil), name)
		assert.Contains(t, alone.Lost([]int{3}), "only by a person", name)
		assert.Contains(t, alone.Lost([]int{3}), "token 0", name)
		assert.Empty(t, parse(token+rest+tang).Lost(systemFirmware), name)
	}
	assert.Empty(t, parse(either+rest).Lost(systemFirmware), "one share of two is enough")
}

func TestAHeaderThatContradictsItselfIsAnError(t *testing.T) {
	for name, area := range map[string]string{
		"nothing in it":     `{}`,
		"a token of a sort": `{"tokens":{"0":{"type":5}},"keyslots":{},"digests":{"0":{}}}`,
		"a key that is not": `{"tokens":{"0":{"type":"systemd-tpm2","tpm2-pcrs":[7],"keyslots":["5"]}},"keyslots":{},"digests":{"0":{}}}`,
	} {
		_, err := luks.Parse([]byte(area))
		require.Error(t, err, name)
	}
}
