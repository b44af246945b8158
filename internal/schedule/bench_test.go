package schedule_test

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule/window"
)

// BenchmarkDecide10000 is one pass over 10,000 nodes, each with a queued job, and 50 policies. Each policy admits as many
// nodes as its budget of 10 % allows.
func BenchmarkDecide10000(b *testing.B) {
	f := fleetOf10000()
	for b.Loop() {
		if d := schedule.Decide(f); len(d.Admit) != 1000 {
			b.Fatalf("admits %d", len(d.Admit))
		}
	}
}

func fleetOf10000() schedule.Facts {
	f := schedule.Facts{}
	for i := range 50 {
		f.Policies = append(f.Policies, schedule.Policy{
			Name: fmt.Sprintf("p%02d", i), Selector: labels.SelectorFromSet(labels.Set{"pool": fmt.Sprint(i)}), MaxUnavailable: intstr.FromString("10%"),
		})
	}
	start := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	for i := range 10_000 {
		name := fmt.Sprintf("node-%05d", i)
		f.Nodes = append(f.Nodes, schedule.Node{Name: name, Ready: true, Scanned: true, Labels: map[string]string{
			"pool": fmt.Sprint(i % 50), "example.com/rack": fmt.Sprint(i / 40), "kubernetes.io/hostname": name,
		}})
		f.Jobs = append(f.Jobs, schedule.Job{Name: name, UID: name, Node: name, Created: start.Add(time.Duration(i%7) * time.Second)})
	}
	return f
}

// BenchmarkDecideWithWindows10000 is the same pass where each policy has windows, a freeze and a budget for each rack.
func BenchmarkDecideWithWindows10000(b *testing.B) {
	f := fleetOf10000()
	f.Now = time.Date(2026, 11, 28, 23, 0, 0, 0, time.UTC)
	for i := range f.Policies {
		saturdays, err := window.Recurring("saturdays", "0 22 * * 6", 4*time.Hour, "Europe/Paris")
		if err != nil {
			b.Fatal(err)
		}
		monthEnd, err := window.Recurring("month-end", "0 0 31 * *", 96*time.Hour, "Europe/Paris")
		if err != nil {
			b.Fatal(err)
		}
		p := &f.Policies[i]
		p.Calendar, p.Expected = window.New([]window.Rule{saturdays}, []window.Rule{monthEnd}), 30*time.Minute
		p.Topology = []schedule.TopologyBudget{{Key: "example.com/rack", MaxUnavailable: intstr.FromInt32(1)}}
	}
	for b.Loop() {
		if d := schedule.Decide(f); len(d.Admit) != 1000 {
			b.Fatalf("admits %d", len(d.Admit))
		}
	}
}
