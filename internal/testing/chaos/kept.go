package chaos

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// Kept is a run that once violated an invariant and is kept as a regression test.
type Kept struct {
	// Why says what was violated, and what fixed it.
	Why string `json:"why,omitempty"`
	// Scenario is the name of one of Scenarios, or "random" for the one of the seed.
	Scenario string `json:"scenario"`
	Seed     uint64 `json:"seed,omitempty"`
	// World is that of the random scenario; zero for the first one.
	World     int       `json:"world,omitempty"`
	Faults    []Fault   `json:"faults"`
	Aftermath Aftermath `json:"aftermath,omitempty"`
}

const randomName = "random"

func keep(t trial) *Kept {
	k := &Kept{Scenario: t.run.Scenario.Name, Seed: t.seed, Faults: t.run.Faults, Aftermath: t.run.Aftermath}
	if strings.HasPrefix(k.Scenario, randomName) {
		k.Scenario, k.World = randomName, newest
	}
	return k
}

// ParseKept parses a kept run. Unknown fields and values are errors.
func ParseKept(raw []byte) (Kept, error) {
	var k Kept
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&k); err != nil {
		return k, fmt.Errorf("decode kept run: %w", err)
	}
	for _, f := range k.Faults {
		if _, ok := variants(f.Kind); !ok {
			return k, fmt.Errorf("decode kept run: unknown fault %q", f.Kind)
		}
	}
	return k, nil
}

// variants is the number of variants of a fault.
func variants(k Kind) (n int, ok bool) {
	for _, f := range families {
		for _, other := range f.kinds {
			if other == k {
				n, ok = max(n, f.variants), true
			}
		}
	}
	return n, ok
}

// Run returns the run, ready to be repeated.
func (k Kept) Run() (Run, error) {
	run := Run{Faults: k.Faults, Aftermath: k.Aftermath, Scenario: randomScenario(k.Seed, k.World)}
	if k.Scenario == randomName {
		return run, nil
	}
	var err error
	run.Scenario, err = scenario(k.Scenario)
	return run, err
}
