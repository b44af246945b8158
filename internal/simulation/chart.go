package simulation

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// The measures of a chart, in units of its viewBox.
const (
	width, left, right = 1000.0, 58.0, 990.0
	statesTop          = 14.0
	statesHeight       = 220.0
	budgetTop          = statesTop + statesHeight + 46
	budgetHeight       = 84.0
	laneHeight         = 32.0
	nameHeight         = 12.0
	nameWidth          = 6.5 // of a letter, about
)

// chart is one pool, drawn.
type chart struct {
	Height, StatesTop, StatesBottom, BudgetTop, BudgetBottom, BudgetHeight, LanesTop float64
	Left, Right                                                                      float64
	Ticks                                                                            []tick
	Areas                                                                            []area
	NodeLines, BudgetLines                                                           []line
	Used, Budget                                                                     string
	Lanes                                                                            []lane
	// Bands are the windows, behind the use of the budget.
	Bands []bar
	// Keys say what the colours of the lanes mean, as far as they occur.
	Keys []key
}

// key is an entry of the legend.
type key struct{ Class, Meaning string }

// laneKeys are the entries of the legend for lanes.
var laneKeys = []key{
	{"first", "first node from a version, alone"}, {"wave", "wave under way"}, {"soak", "wave soaks"}, {"halt", "halted until a person resumes"}, {"window", "window open"}, {"freeze", "freeze"},
}

// area is the nodes in one state over time.
type area struct {
	State State
	Path  string
	// Peak is the greatest number of nodes that were in the state at once, End that at the end.
	Peak, End int
}

// line is a labelled line of the scale of nodes.
type line struct {
	Y     float64
	Label string
}

// lane is a row of bars below the charts.
type lane struct {
	Label string
	Y     float64
	Bars  []bar
}

// bar is a span of time in a lane.
type bar struct {
	X, Width     float64
	Class, Title string
	// Name is shown below the bar, from NameX on; empty where there is none, or no room for it.
	Name  string
	NameX float64
}

func newChart(p *pool, s scale, rows []spans) chart {
	c := chart{
		Left: s.left, Right: s.right, StatesTop: statesTop, StatesBottom: statesTop + statesHeight, BudgetTop: budgetTop,
		BudgetBottom: budgetTop + budgetHeight, BudgetHeight: budgetHeight, Ticks: s.ticks(),
	}
	columns := p.trace.columns(s)
	c.stack(p, s, columns)
	c.budget(s, columns)
	c.LanesTop = c.BudgetBottom + 44
	y := c.LanesTop
	for _, row := range rows {
		l := lane{Label: row.label, Y: y}
		named := 0.0
		for i, b := range row.list {
			x := s.x(b.from)
			drawn := bar{X: round(x), Width: round(max(1.5, s.x(b.to)-x)), Class: b.class, Title: b.title}
			if (i == 0 || row.list[i-1].name != b.name) && b.name != "" {
				// A name that begins near the right edge ends there.
				long := float64(len(b.name)) * nameWidth
				if at := min(x, s.right-long); at >= named {
					drawn.Name, drawn.NameX = b.name, round(at)
					named = at + long + nameWidth
				}
			}
			l.Bars = append(l.Bars, drawn)
			if b.class == "window" || b.class == "freeze" {
				c.Bands = append(c.Bands, drawn)
			}
		}
		c.Lanes = append(c.Lanes, l)
		y += laneHeight
		if named > 0 {
			y += nameHeight
		}
	}
	c.Height = y + 8
	for _, k := range laneKeys {
		if slices.ContainsFunc(rows, func(row spans) bool {
			return slices.ContainsFunc(row.list, func(b span) bool { return b.class == k.Class })
		}) {
			c.Keys = append(c.Keys, k)
		}
	}
	if len(c.Lanes) == 0 {
		c.Height = c.BudgetBottom + 30
	}
	return c
}

// column is what a pool was like in the time that one column of the picture stands for.
type column struct {
	x float64
	// nodes are those at the end of the time; the greatest use of the budget is shown, so that no peak is lost.
	nodes               [states]int
	unavailable, budget int
}

// columns cuts the trace to what can be seen.
func (t trace) columns(s scale) []column {
	const each = 1.5
	var out []column
	for _, m := range t.samples {
		x := s.x(m.at)
		if last := len(out) - 1; last >= 0 && x-out[last].x < each {
			out[last].nodes = m.nodes
			out[last].unavailable, out[last].budget = max(out[last].unavailable, m.unavailable), max(out[last].budget, m.budget)
			continue
		}
		out = append(out, column{x, m.nodes, m.unavailable, m.budget})
	}
	return out
}

// stack draws the nodes by state, one upon the other.
func (c *chart) stack(p *pool, s scale, columns []column) {
	all := float64(max(1, len(p.nodes)))
	y := func(n int) float64 { return c.StatesBottom - statesHeight*float64(n)/all }
	below := make([]int, len(columns))
	for state := range states {
		a := area{State: state}
		var upper, lower []string
		for i, col := range columns {
			n := col.nodes[state]
			a.Peak, a.End = max(a.Peak, n), n
			end := s.right
			if i+1 < len(columns) {
				end = columns[i+1].x
			}
			upper = append(upper, point(col.x, y(below[i]+n)), point(end, y(below[i]+n)))
			lower = append(lower, point(col.x, y(below[i])), point(end, y(below[i])))
			below[i] += n
		}
		if a.Peak == 0 {
			continue
		}
		for i, j := 0, len(lower)-1; i < j; i, j = i+1, j-1 {
			lower[i], lower[j] = lower[j], lower[i]
		}
		a.Path = "M" + strings.Join(slimmed(upper), "L") + "L" + strings.Join(slimmed(lower), "L") + "Z"
		c.Areas = append(c.Areas, a)
	}
	step := 1
	for n := 10; float64(step*5) < all; n *= 10 { // 1, 2, 5, 10, 20, 50 …
		for _, step = range []int{n / 5, n / 2, n} {
			if float64(step*5) >= all {
				break
			}
		}
	}
	for n := 0; n < len(p.nodes); n += step {
		if free := y(n) - y(len(p.nodes)); free > 12 {
			c.NodeLines = append(c.NodeLines, line{round(y(n)), thousands(n)})
		}
	}
	c.NodeLines = append(c.NodeLines, line{round(y(len(p.nodes))), thousands(len(p.nodes))})
}

// budget draws how many nodes are unavailable, and how many may be.
func (c *chart) budget(s scale, columns []column) {
	top := 1
	for _, col := range columns {
		top = max(top, col.unavailable, col.budget)
	}
	y := func(n int) float64 { return c.BudgetBottom - budgetHeight*float64(n)/(float64(top)*1.1) }
	var used, budget []string
	for i, col := range columns {
		end := s.right
		if i+1 < len(columns) {
			end = columns[i+1].x
		}
		used = append(used, point(col.x, y(col.unavailable)), point(end, y(col.unavailable)))
		budget = append(budget, point(col.x, y(col.budget)), point(end, y(col.budget)))
	}
	bottom := c.BudgetBottom
	c.Used = "M" + point(s.left, bottom) + "L" + strings.Join(slimmed(used), "L") + "L" + point(s.right, bottom) + "Z"
	c.Budget = "M" + strings.Join(slimmed(budget), "L")
	c.BudgetLines = []line{{round(y(0)), "0"}}
	if len(columns) > 0 {
		n := columns[len(columns)-1].budget
		c.BudgetLines = append(c.BudgetLines, line{round(y(n)), thousands(n)})
	}
}

// slimmed leaves out each point that is equal to the one before or in a row of the same height.
func slimmed(points []string) []string {
	var out []string
	height := func(p string) string { return p[strings.IndexByte(p, ' '):] }
	for i, p := range points {
		if last := len(out) - 1; last >= 0 && p == out[last] ||
			last >= 0 && i+1 < len(points) && height(p) == height(out[last]) && height(p) == height(points[i+1]) {
			continue
		}
		out = append(out, p)
	}
	return out
}

func point(x, y float64) string { return fmt.Sprintf("%.1f %.1f", x, y) }

func round(x float64) float64 { return float64(int(x*10+0.5)) / 10 }

// spans is a row of spans of time, such as the windows of a policy.
type spans struct {
	label string
	list  []span
}

type span struct {
	from, to     time.Time
	class, title string
	// name is that of the wave; empty for what is no part of one.
	name string
	// open says that the span goes on.
	open bool
}
