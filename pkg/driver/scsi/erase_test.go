package scsi

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/command/commandtest"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// fixed is sense data in fixed format; a negative progress is none.
func fixed(key byte, a additional, progress int) []byte {
	out := make([]byte, 18)
	out[0], out[2], out[7] = 0x70, key, 10
	binary.BigEndian.PutUint16(out[12:], uint16(a))
	if progress >= 0 {
		out[15] = 0x80
		binary.BigEndian.PutUint16(out[16:], uint16(progress))
	}
	return out
}

func TestParseSense(t *testing.T) {
	for name, c := range map[string]struct {
		out  []byte
		want sense
	}{
		"nothing to say":                {fixed(0, 0, -1), sense{}},
		"in progress":                   {fixed(2, senseSanitizing, 0x8000), sense{2, senseSanitizing, 0x8000}},
		"in progress, not how far":      {fixed(2, senseSanitizing, -1), sense{2, senseSanitizing, 0}},
		"failed":                        {fixed(3, senseSanitizeFailed, -1), sense{3, senseSanitizeFailed, 0}},
		"an information bit":            {with(fixed(2, senseSanitizing, 5), 0, "\xf0"), sense{2, senseSanitizing, 5}},
		"of an earlier command":         {with(fixed(3, senseSanitizeFailed, -1), 0, "\x71"), sense{3, senseSanitizeFailed, 0}},
		"more bytes than it fills":      {append(fixed(6, 0x2900, -1), make([]byte, 234)...), sense{6, 0x2900, 0}},
		"short, and no field for it":    {with(fixed(0, 0x5d10, 7)[:14], 7, "\x06"), sense{0, 0x5d10, 0}},
		"descriptors":                   {[]byte{0x72, 2, 4, 0x1b, 0, 0, 0, 8, 2, 6, 0, 0, 0x80, 0x40, 0, 0}, sense{2, senseSanitizing, 0x4000}},
		"another descriptor first":      {[]byte{0x72, 2, 4, 0x1b, 0, 0, 0, 12, 0x80, 2, 1, 1, 2, 6, 0, 0, 0x80, 0x40, 0, 0}, sense{2, senseSanitizing, 0x4000}},
		"the descriptor of progress":    {[]byte{0x72, 0, 0, 0, 0, 0, 0, 8, 0x0a, 6, 2, 4, 0x1b, 0, 0x20, 0}, sense{2, senseSanitizing, 0x2000}},
		"of progress of something else": {[]byte{0x72, 0, 0, 0, 0, 0, 0, 8, 0x0a, 6, 2, 4, 0x04, 0, 0x20, 0}, sense{}},
	} {
		got, err := parseSense(c.out)
		require.NoError(t, err, name)
		assert.Equal(t, c.want, got, name)
	}
	for name, out := range map[string][]byte{
		"nothing": nil, "text": []byte("device not ready\n"), "zeros": make([]byte, 18), "a cut answer": fixed(2, senseSanitizing, 1)[:13],
		"a cut descriptor":   {0x72, 2, 4, 0x1b, 0, 0, 0, 4, 2, 6, 0, 0},
		"fewer than it says": {0x72, 2, 4, 0x1b, 0, 0, 0, 8, 2, 6, 0, 0},
	} {
		got, err := parseSense(out)
		require.Error(t, err, name)
		assert.Zero(t, got)
	}
	assert.Equal(t, "sense 02h/04h/1Bh", sense{2, senseSanitizing, 9}.String())
}

func FuzzParseSense(f *testing.F) {
	f.Add(fixed(2, senseSanitizing, 0x8000))
	f.Add([]byte{0x72, 2, 4, 0x1b, 0, 0, 0, 8, 2, 6, 0, 0, 0x80, 0x40, 0, 0})
	f.Fuzz(func(t *testing.T, out []byte) {
		got, err := parseSense(out)
		if err != nil {
			assert.Zero(t, got)
		}
		assert.LessOrEqual(t, got.Key, byte(15))
		assert.True(t, got.Progress >= 0 && got.Progress < 1<<16)
	})
}

// offer is the answer to the question for a service action of SANITIZE.
func offer(support byte) []byte {
	return []byte{0, support, 0, 10, 0x48, 0xa3, 0, 0, 0, 0, 0, 0, 0, 0}
}

func TestParseOffer(t *testing.T) {
	for name, c := range map[string]struct {
		out  []byte
		want bool
	}{
		"supported": {offer(3), true}, "not supported": {[]byte{0, 1, 0, 0}, false}, "a vendor's own way": {offer(5), false},
		"this logical unit alone": {offer(0x23), true}, "some of them": {offer(0x43), false}, "all of them": {offer(0x63), false},
	} {
		got, err := parseOffer(c.out)
		require.NoError(t, err, name)
		assert.Equal(t, c.want, got, name)
	}
	for name, out := range map[string][]byte{
		"nothing": nil, "text": []byte("Segmentation fault"), "cut": offer(3)[:13], "not now": offer(0), "WRITE BUFFER": with(offer(3), 4, "\x3b"), "a list": with(offer(3), 0, "\x01"),
	} {
		got, err := parseOffer(out)
		require.Error(t, err, name)
		assert.False(t, got)
	}
}

func FuzzParseOffer(f *testing.F) {
	f.Add(offer(3))
	f.Fuzz(func(t *testing.T, out []byte) {
		if got, err := parseOffer(out); err != nil {
			assert.False(t, got)
		}
	})
}

func TestParseWhatSharesADrive(t *testing.T) {
	units := func(n int) []byte {
		return append(binary.BigEndian.AppendUint64(nil, uint64(8*n)<<32), make([]byte, 8*n)...)
	}
	for _, n := range []int{1, 2, 9} {
		got, err := parseLUNs(units(n))
		require.NoError(t, err)
		assert.Equal(t, n, got)
	}
	for _, out := range [][]byte{nil, units(0), units(3)[:20], []byte("Lun list length = 8 which imples 1 lun entry")} {
		_, err := parseLUNs(out)
		require.Error(t, err)
	}
	for want, text := range map[int]string{
		0: "00 00 00 07 00 00 00 00 \n", 1: "00 00 00 07 00 00 00 08  00 00 00 00 12 34 ab cd\n",
		3: "00 00 00 01 00 00 00 18  00 00 00 00 00 00 00 01\n00 00 00 00 00 00 00 02  00 00 00 00 00 00 00 03\n",
	} {
		got, err := parseKeys([]byte(text))
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	for _, text := range []string{"", "00 00 00", "  PR generation=0x7, there are NO registered reservation keys\n", "00 00 00 07 00 00 00 09"} {
		_, err := parseKeys([]byte(text))
		require.Error(t, err, text)
	}
	page, err := parseCharacteristics([]byte{0, 0xb1, 0, 0x3c, 0x1c, 0x20, 0, 0xb2})
	require.NoError(t, err)
	assert.Equal(t, characteristics{Block: 2, Crypto: 3}, page)
	page, err = parseCharacteristics([]byte{0, 0xb1, 0, 0x3c, 0, 1, 0, 0x10})
	require.NoError(t, err)
	assert.Equal(t, characteristics{Solid: true, Crypto: 1}, page)
	for _, out := range [][]byte{nil, {0, 0xb1, 0}, {0, 0xb0, 0, 0x3c, 0, 1, 0, 0xb2}} {
		_, err := parseCharacteristics(out)
		require.Error(t, err)
	}
}

func FuzzParseUnits(f *testing.F) {
	f.Add([]byte("00 00 00 07 00 00 00 08  00 00 00 00 12 34 ab cd\n"))
	f.Add([]byte{0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, out []byte) {
		units, err := parseLUNs(out)
		assert.Equal(t, err == nil, units > 0)
		keys, err := parseKeys(out)
		assert.True(t, keys >= 0 && (err == nil || keys == 0))
		page, err := parseCharacteristics(out)
		assert.True(t, page.Block < 4 && page.Crypto < 4 && (err == nil || page == characteristics{}))
	})
}

// erasable is a drive that erases itself as its answers say.
type erasable struct {
	// senses are answered in turn, the last one again and again.
	senses [][]byte
	// begins is the answer to SANITIZE, or its error.
	begins command.Result
	lost   error
}

var erased = inventory.Identity{
	Class: inventory.Disk, Transport: "sas", Node: "sg0", UniqueID: "naa.5000c500d0000000", Model: "ST16000NM006J", SerialNumber: "ZR5000000000C2048",
}

func (e *erasable) runner(t *testing.T) *commandtest.Runner {
	return commandtest.NewRunner(t, map[string]commandtest.Tool{
		"sg_inq": func(_ context.Context, c command.Command) (command.Result, error) {
			switch {
			case slices.Contains(c.Argv, "--page=0x80"):
				return command.Result{Stdout: golden(t, "serial.bin")}, nil
			case slices.Contains(c.Argv, "--page=0xb1"):
				return command.Result{ExitCode: exitNoPage}, nil
			}
			return command.Result{Stdout: golden(t, "inquiry.bin")}, nil
		},
		"sg_requests": func(context.Context, command.Command) (command.Result, error) {
			out := e.senses[0]
			if len(e.senses) > 1 {
				e.senses = e.senses[1:]
			}
			return command.Result{Stdout: out}, nil
		},
		"sg_opcodes": func(context.Context, command.Command) (command.Result, error) {
			return command.Result{Stdout: offer(3)}, nil
		},
		"sg_luns": func(context.Context, command.Command) (command.Result, error) {
			return command.Result{Stdout: []byte{0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}}, nil
		},
		"sg_persist": func(context.Context, command.Command) (command.Result, error) {
			return command.Result{ExitCode: exitInvalidOpcode}, nil
		},
		"sg_sanitize": func(context.Context, command.Command) (command.Result, error) { return e.begins, e.lost },
	})
}

func told(r *commandtest.Runner) []string {
	return slices.DeleteFunc(r.Lines(), func(line string) bool { return !strings.HasPrefix(line, "sg_sanitize") })
}

// R003-43: a drive reports a sanitize only while it runs and where it failed. A unit attention hides that, and anything unknown tells nothing.
func TestErasureIsReadFromSenseData(t *testing.T) {
	attention := fixed(keyUnitAttention, 0x2900, -1)
	for name, c := range map[string]struct {
		senses [][]byte
		state  driver.EraseState
		fails  string
	}{
		"nothing runs":                   {[][]byte{fixed(0, 0, -1)}, driver.EraseNever, ""},
		"a warning":                      {[][]byte{fixed(0, 0x5d10, -1)}, driver.EraseNever, ""},
		"it runs":                        {[][]byte{fixed(2, senseSanitizing, 0x4000)}, driver.EraseRunning, ""},
		"it runs, behind attentions":     {[][]byte{attention, attention, fixed(2, senseSanitizing, 0x4000)}, driver.EraseRunning, ""},
		"it failed":                      {[][]byte{attention, fixed(3, senseSanitizeFailed, -1)}, driver.EraseFailed, ""},
		"it spins up":                    {[][]byte{fixed(2, 0x0401, -1)}, 0, "sg0 is not ready, and does not say whether it erases itself (sense 02h/04h/01h)"},
		"its hardware is broken":         {[][]byte{fixed(4, 0x4400, -1)}, 0, "is not ready"},
		"one attention after another":    {[][]byte{attention}, 0, "one unit attention after another"},
		"something else than sense data": {[][]byte{[]byte("Segmentation fault")}, 0, "these are none"},
	} {
		t.Run(name, func(t *testing.T) {
			r := (&erasable{senses: c.senses}).runner(t)
			got, err := New(r).Erasure(t.Context(), erased)
			if c.fails != "" {
				require.ErrorContains(t, err, c.fails)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, c.state, got.State)
			assert.True(t, got.NoLog)
			assert.Equal(t, c.state == driver.EraseNever, slices.Equal(driver.EraseMethods(), got.Methods))
			assert.Equal(t, map[driver.EraseState]int{driver.EraseRunning: 25}[c.state], got.Percent)
			assert.Empty(t, told(r))
		})
	}
}

// R003-43: an answer that does not rule out that the drive has begun is no refusal.
func TestEraseTellsRefusalFromDoubt(t *testing.T) {
	for name, c := range map[string]struct {
		begins  command.Result
		lost    error
		refused bool
	}{
		"it refuses the field":         {command.Result{ExitCode: exitIllegalRequest, Stderr: []byte("Additional sense: Invalid field in cdb\n")}, nil, true},
		"it does not know the command": {command.Result{ExitCode: exitInvalidOpcode}, nil, true},
		"it is not ready":              {command.Result{ExitCode: exitNotReady}, nil, true},
		"another host has reserved it": {command.Result{ExitCode: exitReservation}, nil, true},
		"it is write protected":        {command.Result{ExitCode: exitDataProtect}, nil, true},
		"it was reset just now":        {command.Result{ExitCode: exitUnitAttention}, nil, true},
		"its queue is full":            {command.Result{ExitCode: exitTaskSetFull}, nil, true},
		"it aborts the command":        {command.Result{ExitCode: exitAborted}, nil, false},
		"its hardware failed":          {command.Result{ExitCode: exitMediumError}, nil, false},
		"it does not answer in time":   {command.Result{ExitCode: exitTimeout}, nil, false},
		"the controller lost it":       {command.Result{ExitCode: 35}, nil, false},
		"the tool died":                {command.Result{}, command.ErrLost, false},
		"the tool still runs":          {command.Result{}, command.ErrStillRunning, false},
		"the tool does not know early": {command.Result{Stderr: []byte("sg_sanitize: unrecognized option '--early'\n")}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := (&erasable{senses: [][]byte{fixed(0, 0, -1)}, begins: c.begins, lost: c.lost}).runner(t)
			err := New(r).Erase(t.Context(), erased, driver.EraseBlock)
			require.Error(t, err)
			assert.Equal(t, c.refused, errors.As(err, new(*driver.RejectedError)), err)
			if c.lost != nil {
				require.ErrorIs(t, err, c.lost)
			}
			assert.Equal(t, []string{"sg_sanitize -v --quick --early --timeout=1200 --block --ause /dev/sg0"}, told(r))
		})
	}
}

func TestEraseBeginsOneSanitize(t *testing.T) {
	for method, options := range map[driver.EraseMethod]string{
		driver.EraseCrypto: "--crypto", driver.EraseBlock: "--block", driver.EraseOverwrite: "--overwrite --zero",
	} {
		r := (&erasable{senses: [][]byte{fixed(0, 0, -1)}}).runner(t)
		require.NoError(t, New(r).Erase(t.Context(), erased, method))
		assert.Equal(t, []string{"sg_sanitize -v --quick --early --timeout=1200 " + options + " --ause /dev/sg0"}, told(r))
	}
	r := (&erasable{senses: [][]byte{fixed(2, senseSanitizing, 0)}}).runner(t)
	require.ErrorAs(t, New(r).Erase(t.Context(), erased, driver.EraseBlock), new(*driver.RejectedError))
	other := erased
	other.SerialNumber = ""
	require.ErrorAs(t, New(r).Erase(t.Context(), other, driver.EraseBlock), new(*driver.RejectedError), "it is not known which drive is meant")
	assert.Empty(t, told(r))
}

// lacking is a runner on a host without one of the tools.
type lacking struct {
	*commandtest.Runner
	tool string
}

func (l lacking) Installed(tool string) error {
	if tool == l.tool {
		return &command.Error{Argv: []string{tool}, Err: command.ErrNotFound}
	}
	return nil
}

// A host without the tools of an erasure alone goes on updating drives, and erases none. Without the one that tells how a drive stands that is not known.
func TestErasureNeedsMoreToolsThanAnUpdate(t *testing.T) {
	for _, tool := range New(nil).Tools() {
		r := (&erasable{senses: [][]byte{fixed(0, 0, -1)}}).runner(t)
		d := New(lacking{r, tool})
		e, err := d.Erasure(t.Context(), erased)
		switch tool {
		case "sg_luns", "sg_persist", "sg_sanitize":
			require.NoError(t, err)
			assert.Empty(t, e.Methods)
			assert.Equal(t, tool+" is missing on this host", e.Otherwise)
			require.ErrorContains(t, d.Erase(t.Context(), erased, driver.EraseBlock), tool+" is missing on this host")
		case "sg_requests":
			require.ErrorContains(t, err, "sg_requests is missing on this host, so that it cannot be told whether")
		default:
			require.ErrorIs(t, d.Usable(), command.ErrNotFound, tool)
			continue
		}
		require.NoError(t, d.Usable(), tool)
		assert.Empty(t, told(r))
	}
}
