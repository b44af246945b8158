package scale

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/fieldset"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/lab/cluster"
)

// operatorWorkers is how many devices the operator writes at once.
const operatorWorkers = 8

func (r *run) create(ctx context.Context) error {
	began := time.Now()
	if err := r.operator.start(ctx); err != nil {
		return err
	}
	err := r.await(ctx, "each Node has a NodeFirmware", func(s *seen) bool { return len(s.firmwares) == r.Nodes })
	r.report.CreateSeconds = since(began)
	if err != nil {
		return err
	}
	if err := r.fleet.offer(ctx, r.Dir); err != nil {
		return err
	}
	if err := r.await(ctx, "the source is ready", func(s *seen) bool { return s.sourceReady }); err != nil {
		return err
	}
	if r.audit, err = openAudit(r.plane.AuditPath()); err != nil {
		return err
	}
	_, err = r.counted()
	return err
}

func (r *run) assign(ctx context.Context) error {
	began := time.Now()
	if err := r.fleet.desire(ctx); err != nil {
		return err
	}
	if err := r.await(ctx, "each device is assigned firmware", func(s *seen) bool { return len(s.assigned) == r.report.Devices }); err != nil {
		return err
	}
	r.report.AssignSeconds = since(began)
	w, err := r.counted()
	r.report.WritesPerDevice = float64(w.all) / float64(r.report.Devices)
	return err
}

// restart lets the daemons see what is assigned to their devices while no operator runs, so that all jobs are due at once. From
// then on the daemons are there.
func (r *run) restart(ctx context.Context) error {
	if err := r.operator.stop(); err != nil {
		return err
	}
	playing, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	r.silence = func() { stop(); <-done }
	r.background.Go(func() {
		defer close(done)
		r.daemons.run(playing)
	})
	if err := r.await(ctx, "the daemons have seen each device", func(s *seen) bool { return len(s.unobserved) == 0 }); err != nil {
		return err
	}
	if _, err := r.counted(); err != nil {
		return err
	}
	began := time.Now()
	err := r.operator.start(ctx)
	r.report.RestartSeconds = since(began)
	return err
}

func (r *run) rollOut(ctx context.Context) error {
	before, err := r.apiSeconds(ctx)
	if err != nil {
		return err
	}
	if err := r.await(ctx, "each node has a job", func(s *seen) bool { return len(s.jobs) == r.Nodes }); err != nil {
		return err
	}
	r.seen.has(func(s *seen) bool {
		s.counted = time.Now()
		return true
	})()
	err = r.await(ctx, "the rollout is over", func(s *seen) bool {
		return len(s.ended) == r.Nodes && len(s.protected) == 0 && s.ledger == 0 && s.appliedNodes() == r.Nodes
	})
	if err != nil {
		return err
	}
	ended := time.Now()
	r.seen.has(func(s *seen) bool {
		r.report.Jobs, r.report.AdmittedAtOnce = len(s.jobs), s.ledgerPeak
		r.report.FilledPlaces = s.filled / max(s.offered, 1)
		r.report.QueueSeconds = s.lastJob.Sub(s.firstJob).Seconds()
		r.report.RolloutSeconds = ended.Sub(s.firstJob).Seconds()
		r.report.AdmissionsPerSecond = float64(len(s.admitted)) / max(s.lastAdmitted.Sub(s.firstAdmitted).Seconds(), 0.1)
		return true
	})()
	// A catalog collects for half a minute what the daemons report. Its last look belongs to the rollout.
	err = r.await(ctx, "the catalogs know what runs", func(s *seen) bool { return s.catalogsKnow(r.report.Devices) })
	if err != nil {
		return err
	}
	w, err := r.counted()
	if err != nil {
		return err
	}
	r.report.RolloutWrites, r.report.WritesPerJob = w.by, float64(w.all)/float64(r.report.Jobs)
	after, err := r.apiSeconds(ctx)
	r.report.APIMillisecondsPerJob = (after - before) * 1000 / float64(r.report.Jobs)
	return err
}

// apiSeconds is the processor time that the API server has taken so far, by its own metrics.
func (r *run) apiSeconds(ctx context.Context) (float64, error) {
	c, err := rest.HTTPClientFor(r.plane.Config())
	if err != nil {
		return 0, fmt.Errorf("make client of the API server's metrics: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(r.plane.Config().Host, "/")+"/metrics", nil)
	if err != nil {
		return 0, fmt.Errorf("read metrics of the API server: %w", err)
	}
	answer, err := c.Do(request)
	if err != nil {
		return 0, fmt.Errorf("read metrics of the API server: %w", err)
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if text, is := strings.CutPrefix(lines.Text(), "process_cpu_seconds_total "); is {
			return strconv.ParseFloat(text, 64)
		}
	}
	return 0, fmt.Errorf("read metrics of the API server: no processor time: %w", errors.Join(lines.Err(), errors.New(answer.Status)))
}

func (r *run) rest(ctx context.Context) error {
	until := time.Now().Add(r.Rest)
	if err := r.await(ctx, "the rest is over", func(*seen) bool { return time.Now().After(until) }); err != nil {
		return err
	}
	w, err := r.counted()
	r.report.RestWrites, r.report.RestKinds, r.report.RestSeconds = w.all, w.by, r.Rest.Seconds()
	return err
}

func (r *run) stop(context.Context) (err error) {
	r.silence()
	if err := r.operator.stop(); err != nil {
		return err
	}
	r.report.PeakMiB = float64(r.operator.peak) / 1024
	r.report.LargestKiB = r.seen.largestKiB()
	r.report.LoggedErrors, err = r.operator.loggedErrors()
	return err
}

// writePlainly writes the firmware of each device once more, as another version, with the operator's account, rate limit and
// number of requests in flight.
func (r *run) writePlainly(ctx context.Context) error {
	access, err := clientcmd.BuildConfigFromFlags("", r.operator.kubeconfig)
	if err != nil {
		return fmt.Errorf("load access of the operator: %w", err)
	}
	access.QPS = -1
	c, err := client.New(rest.AddUserAgent(access, "plain"), client.Options{Scheme: cluster.Scheme()})
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	var devices v1alpha1.NodeDeviceList
	if err := r.fleet.client.List(ctx, &devices); err != nil {
		return fmt.Errorf("list devices: %w", err)
	}
	began := time.Now()
	err = each(ctx, len(devices.Items), operatorWorkers, func(ctx context.Context, i int) error {
		d := &devices.Items[i]
		d.Spec.Firmware.Version = from
		_, err := fieldset.ApplyDesired(ctx, c, d, d.Spec)
		return err
	})
	r.report.RawSeconds = since(began)
	return err
}
