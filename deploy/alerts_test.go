package deploy_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/nodefirmware/node-firmware-operator/deploy"
	"github.com/nodefirmware/node-firmware-operator/internal/metrics"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/golden"
)

// rules are those of a PrometheusRule, as Prometheus reads them from a file.
type rules struct {
	Groups []struct {
		Name  string  `json:"name"`
		Rules []alert `json:"rules"`
	} `json:"groups"`
}

type alert struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

func alertRules(t *testing.T) rules {
	t.Helper()
	objects, err := deploy.Objects(deploy.Alerts)
	require.NoError(t, err)
	require.Len(t, objects, 1)
	var out rules
	raw, err := json.Marshal(objects[0].Object["spec"])
	require.NoError(t, err)
	require.NoError(t, yaml.UnmarshalStrict(raw, &out))
	require.Len(t, out.Groups, 1)
	return out
}

const runbooks = "https://github.com/nodefirmware/node-firmware-operator/blob/main/docs/runbooks/"

// TestAlertsSayWhatToDo: each alert has what a person needs who is called by it, uses metrics that exist, and has a runbook that says so.
// The golden file is the page of the documentation.
func TestAlertsSayWhatToDo(t *testing.T) {
	var page strings.Builder
	page.WriteString("# Alerts\n\nWritten from `deploy/kustomize/alerts`. How to have them: [metrics](metrics.md#alerts-and-a-dashboard).\n\n" +
		"| Alert | Severity | For | What happened | Runbook |\n|---|---|---|---|---|\n")
	for _, a := range alertRules(t).Groups[0].Rules {
		assert.Regexp(t, `^NodeFirmware[A-Za-z]+$`, a.Alert)
		assert.Contains(t, []string{"critical", "warning"}, a.Labels["severity"], a.Alert)
		assert.Len(t, a.Annotations, 3, a.Alert)
		for _, name := range []string{"summary", "description"} {
			assert.Regexp(t, `\.$`, a.Annotations[name], "%s: %s is a sentence", a.Alert, name)
		}
		runbook, found := strings.CutPrefix(a.Annotations["runbook_url"], runbooks)
		assert.True(t, found, a.Alert)
		text, err := os.ReadFile("../docs/runbooks/" + runbook)
		require.NoError(t, err, a.Alert)
		assert.Contains(t, string(text), "`"+a.Alert+"`", "%s does not name its alert", runbook)
		checkQuery(t, a.Alert, a.Expr)
		page.WriteString("| `" + a.Alert + "` | " + a.Labels["severity"] + " | " + a.For + " | " +
			strings.ReplaceAll(a.Annotations["description"], "\n", " ") + " | [" + strings.TrimSuffix(runbook, ".md") + "](../runbooks/" + runbook + ") |\n")
	}
	golden.Equal(t, "../docs/reference/alerts.md", page.String())
}

// TestAlertsFireAndEnd is run by make alerts-test. It has promtool play each alert, whose texts it only parses, as it does the queries of
// the dashboard.
func TestAlertsFireAndEnd(t *testing.T) {
	is := alertRules(t)
	tests, err := os.ReadFile("testdata/alerts/tests.yaml")
	require.NoError(t, err)
	var played struct {
		Tests []struct {
			Cases []struct {
				Name string `json:"alertname"`
				Want []any  `json:"exp_alerts"`
			} `json:"alert_rule_test"`
		} `json:"tests"`
	}
	require.NoError(t, yaml.Unmarshal(tests, &played))
	fires, ends := map[string]bool{}, map[string]bool{}
	for _, c := range played.Tests[0].Cases {
		fires[c.Name] = fires[c.Name] || len(c.Want) > 0
		ends[c.Name] = ends[c.Name] || fires[c.Name] && len(c.Want) == 0
	}
	for _, a := range is.Groups[0].Rules {
		assert.True(t, fires[a.Alert] && ends[a.Alert], "%s needs a case where it fires, and a later one where it has ended", a.Alert)
	}

	promtool, dir := prometheus(t, "promtool"), t.TempDir()
	writeYAML(t, dir+"/full.yaml", is)
	for i := range is.Groups[0].Rules {
		is.Groups[0].Rules[i].Annotations = nil
	}
	writeYAML(t, dir+"/rules.yaml", is)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tests.yaml"), tests, 0o644))
	var queries []any
	for _, p := range readDashboard(t).Panels {
		for _, target := range p.Targets {
			queries = append(queries, map[string]any{"record": fmt.Sprintf("query_%d", len(queries)), "expr": target.Expr})
		}
	}
	writeYAML(t, dir+"/dashboard.yaml", map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": queries}}})
	for _, args := range [][]string{{"check", "rules", "full.yaml"}, {"check", "rules", "dashboard.yaml"}, {"test", "rules", "tests.yaml"}} {
		c := exec.CommandContext(t.Context(), promtool, args...)
		c.Dir = dir
		out, err := c.CombinedOutput()
		t.Logf("promtool %s\n%s", strings.Join(args, " "), out)
		require.NoError(t, err)
	}
}

// prometheus is one of the programs of Prometheus. Without them the test is skipped.
func prometheus(t *testing.T, program string) string {
	t.Helper()
	dir := os.Getenv("PROMETHEUS")
	if dir == "" {
		t.Skip("make alerts-test names the directory of Prometheus")
	}
	return filepath.Join(dir, program)
}

func writeYAML(t *testing.T, path string, content any) {
	t.Helper()
	raw, err := yaml.Marshal(content)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, raw, 0o644))
}

var (
	queryMetric = regexp.MustCompile(`\b(node_firmware_[a-z_]+)(?:\{([^}]*)\})?`)
	queryLabel  = regexp.MustCompile(`([a-z_]+)\s*(?:=~|!~|!=|=)\s*"([^"]*)"`)
	queryGroup  = regexp.MustCompile(`\b(?:by|on|without|ignoring|group_left|group_right) ?\(([^)]*)\)`)
)

// checkQuery: every metric of a query is in the table, with the labels that the query names, and a state that it names is one that the table
// or the API knows.
func checkQuery(t *testing.T, where, query string) {
	t.Helper()
	known, labels := map[string]metrics.Metric{}, map[string]bool{}
	for _, m := range metrics.Table {
		known[m.Name] = m
	}
	found := queryMetric.FindAllStringSubmatch(query, -1)
	require.NotEmpty(t, found, "%s has no metric of the product: %s", where, query)
	for _, use := range found {
		m, is := known[use[1]]
		require.True(t, is, "%s: there is no metric %s", where, use[1])
		for _, label := range m.Labels {
			labels[label] = true
		}
		for _, matcher := range queryLabel.FindAllStringSubmatch(use[2], -1) {
			assert.Contains(t, m.Labels, matcher[1], "%s: a label of %s", where, m.Name)
			for value := range strings.SplitSeq(matcher[2], "|") {
				if strings.HasPrefix(value, "$") { // a variable of the dashboard
					continue
				}
				assert.True(t, strings.Contains(m.Help, value) || slices.Contains(reasons(t), value), "%s: %s has no %s %q", where, m.Name, matcher[1], value)
			}
		}
	}
	for _, group := range queryGroup.FindAllStringSubmatch(query, -1) {
		for label := range strings.SplitSeq(group[1], ",") {
			assert.True(t, labels[strings.TrimSpace(label)], "%s groups by %s", where, label)
		}
	}
}

var reasonConstant = regexp.MustCompile(`(?m)^\s+Reason[A-Za-z]+\s+= "([A-Za-z]+)"$`)

// reasons are those of the API.
func reasons(t *testing.T) (out []string) {
	t.Helper()
	files, err := filepath.Glob("../api/v1alpha1/*.go")
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range reasonConstant.FindAllSubmatch(text, -1) {
			out = append(out, string(m[1]))
		}
	}
	require.NotEmpty(t, out)
	return out
}

// dashboard is what the tests read of the one for Grafana.
type dashboard struct {
	Templating struct {
		List []struct{ Name, Type, Query string }
	}
	Panels []struct {
		ID      int
		Title   string
		GridPos struct{ X, Y, W, H int }
		Targets []struct{ Expr string }
	}
}

func readDashboard(t *testing.T) (out dashboard) {
	t.Helper()
	raw, err := os.ReadFile("kustomize/dashboard/node-firmware.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, &out))
	return out
}

// TestDashboardShowsMetricsThatExist: each panel has queries of the metrics in the table, and room of its own.
func TestDashboardShowsMetricsThatExist(t *testing.T) {
	dashboard := readDashboard(t)
	shown, ids, places := map[string]bool{}, map[int]bool{}, map[[2]int]string{}
	for _, p := range dashboard.Panels {
		assert.False(t, ids[p.ID], "%s: the id is another panel's", p.Title)
		ids[p.ID] = true
		assert.LessOrEqual(t, p.GridPos.X+p.GridPos.W, 24, p.Title)
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				assert.Empty(t, places[[2]int{x, y}], "%s lies over it", p.Title)
				places[[2]int{x, y}] = p.Title
			}
		}
		require.NotEmpty(t, p.Targets, p.Title)
		for _, target := range p.Targets {
			checkQuery(t, p.Title, target.Expr)
			for _, m := range queryMetric.FindAllStringSubmatch(target.Expr, -1) {
				shown[m[1]] = true
			}
		}
	}
	for _, v := range dashboard.Templating.List {
		if v.Type == "query" {
			of := strings.Split(strings.TrimSuffix(strings.TrimPrefix(v.Query, "label_values("), ")"), ", ")
			require.Len(t, of, 2, v.Query)
			checkQuery(t, v.Name, of[0]+`{`+of[1]+`="$x"}`)
		}
	}
	for _, a := range alertRules(t).Groups[0].Rules {
		for _, m := range queryMetric.FindAllStringSubmatch(a.Expr, -1) {
			assert.True(t, shown[m[1]], "%s is alerted on and not shown", m[1])
		}
	}
}
