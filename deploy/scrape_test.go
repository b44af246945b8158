package deploy_test

import (
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/deploy"
	"github.com/nodefirmware/node-firmware-operator/internal/config"
	"github.com/nodefirmware/node-firmware-operator/internal/operator"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/child"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/controlplane"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/lab/cluster"
)

// TestPrometheusScrapesTheOperator is run by make alerts-test. Prometheus reads the metrics of an operator, which has the rights of its role, as
// the ServiceMonitor says and with the right of the command in docs/reference/metrics.md; it loads the alerts, and one fires. Without a token
// it reads nothing.
func TestPrometheusScrapesTheOperator(t *testing.T) {
	program := prometheus(t, "prometheus")
	s := newSite(t)
	address := s.operator(t)
	held := `{"status":{"conditions":[{"type":"Held","status":"True","reason":"NeedsIntervention","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`
	require.NoError(t, s.admin.Status().Patch(t.Context(), &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: "node-a"}}, merge(held)))

	scrape, err := deploy.Objects(deploy.Scrape)
	require.NoError(t, err)
	require.Len(t, scrape, 2)
	var reader rbacv1.ClusterRole
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(scrape[0].Object, &reader))
	require.NoError(t, s.admin.Create(t.Context(), &reader))
	require.NoError(t, s.admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "monitoring"}}))
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "monitoring", Name: "prometheus"}}
	require.NoError(t, s.admin.Create(t.Context(), account))
	apitest.Kubectl(t, s.kubeconfig, "kubectl create clusterrolebinding node-firmware-metrics-reader --clusterrole=node-firmware-metrics-reader "+
		"--serviceaccount=monitoring:prometheus")
	token, err := cluster.AccountToken(t.Context(), s.admin, account)
	require.NoError(t, err)

	dir := t.TempDir()
	require.NoError(t, os.WriteFile(dir+"/token", []byte(token), 0o600))
	endpoints, _, err := unstructured.NestedSlice(scrape[1].Object, "spec", "endpoints")
	require.NoError(t, err)
	require.Len(t, endpoints, 1)
	endpoint := endpoints[0].(map[string]any)
	assert.Equal(t, "/var/run/secrets/kubernetes.io/serviceaccount/token", endpoint["bearerTokenFile"])
	job := func(name string, more map[string]any) map[string]any {
		out := map[string]any{
			"job_name": name, "scheme": endpoint["scheme"], "static_configs": []any{map[string]any{"targets": []any{address}}},
			"tls_config": map[string]any{"insecure_skip_verify": endpoint["tlsConfig"].(map[string]any)["insecureSkipVerify"]},
		}
		maps.Copy(out, more)
		return out
	}
	rules := alertRules(t)
	for i := range rules.Groups[0].Rules {
		rules.Groups[0].Rules[i].For = "0s"
	}
	writeYAML(t, dir+"/rules.yaml", rules)
	writeYAML(t, dir+"/prometheus.yaml", map[string]any{
		"global":         map[string]any{"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
		"rule_files":     []any{"rules.yaml"},
		"scrape_configs": []any{job("with", map[string]any{"bearer_token_file": dir + "/token"}), job("without", nil)},
	})
	web, err := controlplane.FreeAddress()
	require.NoError(t, err)
	p, err := child.Start("prometheus", dir+"/log", program, "--config.file="+dir+"/prometheus.yaml", "--storage.tsdb.path="+dir+"/data",
		"--web.listen-address="+web)
	require.NoError(t, err)
	t.Cleanup(func() { p.Stop(time.Minute) })

	answers := func(query string) (out []string) {
		response, err := http.Get("http://" + web + "/api/v1/query?query=" + url.QueryEscape(query))
		if err != nil {
			return nil
		}
		defer response.Body.Close()
		var is struct {
			Data struct{ Result []struct{ Value [2]any } }
		}
		if json.NewDecoder(response.Body).Decode(&is) != nil {
			return nil
		}
		for _, r := range is.Data.Result {
			out = append(out, r.Value[1].(string))
		}
		return out
	}
	for query, want := range map[string][]string{
		`up{job="with"}`:                   {"1"},
		`up{job="without"}`:                {"0"},
		`node_firmware_nodes{state="All"}`: {"2"},
		`ALERTS{alertname="NodeFirmwareNeedsIntervention", alertstate="firing"}`: {"1"},
	} {
		require.EventuallyWithT(t, func(ct *assert.CollectT) { assert.Equal(ct, want, answers(query)) }, 2*time.Minute, 100*time.Millisecond, query)
	}
	log, err := os.ReadFile(dir + "/log")
	require.NoError(t, err)
	assert.NotContains(t, string(log), "level=error")
}

// operator runs the operator as its account, and returns where it serves its metrics.
func (s *site) operator(t *testing.T) string {
	t.Helper()
	token, err := cluster.AccountToken(t.Context(), s.admin, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: "firmware-operator"}})
	require.NoError(t, err)
	require.NoError(t, rest.LoadTLSFiles(s.config))
	access := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, controlplane.WriteAccess(access, s.config.Host, s.config.CAData, &clientcmdapi.AuthInfo{Token: token}))
	metrics, err := controlplane.FreeAddress()
	require.NoError(t, err)
	images, err := controlplane.FreeAddress()
	require.NoError(t, err)
	conf := config.Operator{
		Kubeconfig: access, Namespace: cluster.Namespace, DaemonName: "firmware-daemon", UpdateStrategies: []string{config.StrategyDaemon},
		Maintenance: config.MaintenanceOperator, StoreDir: t.TempDir(), ExpectedJobDuration: time.Hour, ImageServerAddress: images,
		ImageServerNames: []string{"127.0.0.1"}, ProbeAddress: "0", MetricsAddress: metrics, LogLevel: "info",
	}
	require.NoError(t, conf.Validate())
	done := make(chan error, 1)
	go func() {
		done <- operator.Run(t.Context(), conf, []operator.Strategy{operator.Daemon{}}, slog.New(slog.NewTextHandler(io.Discard, nil)))
	}()
	t.Cleanup(func() { assert.NoError(t, <-done) })
	return metrics
}
