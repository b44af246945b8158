package source

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/internal/watch"
	"github.com/nodefirmware/node-firmware-operator/pkg/artifact"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// jobEnded passes the end of a job, and its deletion.
var jobEnded = predicate.Funcs{
	CreateFunc:  func(event.CreateEvent) bool { return false },
	GenericFunc: func(event.GenericEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool {
		was, wasJob := e.ObjectOld.(*v1alpha1.FirmwareJob)
		is, isJob := e.ObjectNew.(*v1alpha1.FirmwareJob)
		return wasJob && isJob && !was.Ended() && is.Ended()
	},
}

// users names the templates, nodes and unfinished jobs that refer to the source, read past the cache.
func (r *Reconciler) users(ctx context.Context, source *v1alpha1.FirmwareSource) ([]string, error) {
	var out []string
	var templates v1alpha1.FirmwareTemplateList
	if err := r.Reader.List(ctx, &templates); err != nil {
		return nil, fmt.Errorf("list templates: %w", err)
	}
	for _, t := range templates.Items {
		if slices.ContainsFunc(t.Spec.Rules, func(d v1alpha1.FirmwareRule) bool { return d.SourceRef.Name == source.Name }) {
			out = append(out, "FirmwareTemplate/"+t.Name)
		}
	}
	var nodes v1alpha1.NodeFirmwareList
	if err := r.Reader.List(ctx, &nodes); err != nil {
		return nil, fmt.Errorf("list node firmware: %w", err)
	}
	for _, n := range nodes.Items {
		if slices.ContainsFunc(n.Spec.Pins, func(p v1alpha1.FirmwareRule) bool { return p.SourceRef.Name == source.Name }) {
			out = append(out, "NodeFirmware/"+n.Name)
		}
	}
	var jobs v1alpha1.FirmwareJobList
	if err := r.Reader.List(ctx, &jobs); err != nil {
		return nil, fmt.Errorf("list firmware jobs: %w", err)
	}
	for i := range jobs.Items {
		if j := &jobs.Items[i]; !j.Ended() && needs(j, source) {
			out = append(out, "FirmwareJob/"+j.Name)
		}
	}
	return out, nil
}

// needs reports whether the job flashes or rolls back to an image that the source lists.
func needs(j *v1alpha1.FirmwareJob, source *v1alpha1.FirmwareSource) bool {
	return slices.ContainsFunc(j.Spec.Task.Devices, func(u v1alpha1.TaskDevice) bool {
		return slices.ContainsFunc(source.Status.Images, func(i v1alpha1.StoredImage) bool {
			return i.Digest == u.RollbackDigest || i.Digest == u.Digest
		})
	})
}

// quarantined says which of the images are not flashed somewhere, and on which models.
func (r *Reconciler) quarantined(ctx context.Context, images []v1alpha1.StoredImage) ([]string, error) {
	var list v1alpha1.FirmwareQuarantineList
	if err := r.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list quarantines: %w", err)
	}
	var out []string
	for i := range list.Items {
		q := &list.Items[i]
		at := slices.IndexFunc(images, func(s v1alpha1.StoredImage) bool { return s.Digest == q.Spec.Digest })
		if at < 0 || !keepsAway(q) {
			continue
		}
		on := "every model"
		if q.Spec.Model != v1alpha1.AnyModel {
			on = "model " + q.Spec.Model
		}
		out = append(out, fmt.Sprintf("version %s on %s", images[at].Version, on))
	}
	slices.Sort(out)
	return out, nil
}

// keepsAway reports whether a quarantine keeps its image from any node.
func keepsAway(q *v1alpha1.FirmwareQuarantine) bool {
	return q.Status.Scope == v1alpha1.QuarantinePolicies || q.Status.Scope == v1alpha1.QuarantineFleet
}

func quarantineChanged(a, b *v1alpha1.FirmwareQuarantine) bool { return keepsAway(a) != keepsAway(b) }

// listing wakes the sources that list the image of a quarantine.
func (r *Reconciler) listing(ctx context.Context, o client.Object) []reconcile.Request {
	q, isOne := o.(*v1alpha1.FirmwareQuarantine)
	var list v1alpha1.FirmwareSourceList
	if err := r.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil || !isOne {
		return nil // each source is looked at regularly
	}
	var names []string
	for i := range list.Items {
		if slices.ContainsFunc(list.Items[i].Status.Images, func(s v1alpha1.StoredImage) bool { return s.Digest == q.Spec.Digest }) {
			names = append(names, list.Items[i].Name)
		}
	}
	return watch.Requests(names...)
}

// collect deletes the images that nobody needs: no source, no unfinished job, and no device that is to run one, if only on the way to another.
func (r *Reconciler) collect(ctx context.Context) error {
	return r.Store.Collect(func() ([]inventory.Digest, error) {
		var jobs v1alpha1.FirmwareJobList
		if err := r.Reader.List(ctx, &jobs); err != nil {
			return nil, fmt.Errorf("list firmware jobs: %w", err)
		}
		var needed []v1alpha1.Digest
		for i := range jobs.Items {
			if jobs.Items[i].Ended() {
				continue
			}
			for _, u := range jobs.Items[i].Spec.Task.Devices {
				needed = append(needed, u.Digest, u.RollbackDigest)
			}
		}
		// A device keeps its assignment for a while after the source was edited, and a job may come of it. Its copy in the cache
		// is good enough, because an image stays for an hour.
		var devices v1alpha1.NodeDeviceList
		if err := r.Client.List(ctx, &devices, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("list devices: %w", err)
		}
		for i := range devices.Items {
			needed = append(needed, devices.Items[i].Spec.Firmware.Images()...)
		}
		var out []inventory.Digest
		for _, d := range needed {
			if digest, err := inventory.ParseDigest(string(d)); err == nil {
				out = append(out, digest)
			}
		}
		return out, nil
	})
}

// collectRegularly deletes what sources leave behind that do not exist any more, when nobody else comes to do it.
func (r *Reconciler) collectRegularly(ctx context.Context) error {
	ticker := time.NewTicker(lookAgain)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			if err := r.collect(ctx); err != nil && ctx.Err() == nil {
				log.FromContext(ctx).Error(err, "Could not delete images that nobody needs")
			}
		}
	}
}

const (
	// fetches bounds the files that are fetched at once, and fetchesPerHost those from one server. Each may take 1 GiB of the volume
	// of 20 GiB that the manifests give the operator, beside the images that are stored.
	fetches, fetchesPerHost = 16, 2
	// others is how many sources may be worked on besides those that fetch.
	others = 8
	// concurrency is how many sources are worked on at once. A source that may not fetch now gives its place back, so that servers that
	// hang hold up neither the sources that need none nor those of other servers.
	concurrency = fetches + others
	// fetchSoon is how long a source waits that may not fetch now.
	fetchSoon = 5 * time.Second
)

// errLater is the error of a source that may not fetch now. It is no failure.
var errLater = errors.New("other sources are being fetched from that server, and as many as may be at once")

// lanes count the fetches that run. The zero value is ready for use.
type lanes struct {
	mu    sync.Mutex
	all   int
	hosts map[string]int
	// waiting are the sources that may not fetch now, by name.
	waiting map[string]turn
}

// turn is what a source waits for: to fetch from a server for that generation of its spec.
type turn struct {
	generation int64
	host       string
}

// enter begins a fetch, unless as many run as may. Leave ends it.
func (l *lanes) enter(rawURL string) (leave func(), ok bool) {
	host := hostOf(rawURL)
	if host == "" {
		return func() {}, true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.full(host) {
		return nil, false
	}
	if l.hosts == nil {
		l.hosts = map[string]int{}
	}
	l.all++
	l.hosts[host]++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.all--
		if l.hosts[host]--; l.hosts[host] == 0 {
			delete(l.hosts, host)
		}
	}, true
}

// wait remembers that a source may not fetch from that URL now.
func (l *lanes) wait(source string, generation int64, rawURL string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting == nil {
		l.waiting = map[string]turn{}
	}
	l.waiting[source] = turn{generation, hostOf(rawURL)}
}

// waits reports whether a source still may not fetch what it waited for. Otherwise that is forgotten.
func (l *lanes) waits(source string, generation int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	turn, ok := l.waiting[source]
	if ok && turn.generation == generation && l.full(turn.host) {
		return true
	}
	delete(l.waiting, source)
	return false
}

// forget ends the wait of a source that is to fetch nothing any more.
func (l *lanes) forget(source string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.waiting, source)
}

// full reports whether as many fetches run as may, in all or from that server.
func (l *lanes) full(host string) bool { return l.all >= fetches || l.hosts[host] >= fetchesPerHost }

// hostOf is the server of a URL; empty where nothing goes over the network.
func hostOf(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil || u.Scheme == "file" {
		return ""
	}
	return strings.ToLower(u.Host)
}

const (
	// maxImages bounds status.images, as the API does.
	maxImages = 512
	// maxSize bounds what a source describes, in bytes of JSON: its spec, the copy of it that kubectl keeps in an annotation, and the
	// list of its images. With its conditions the object stays under 256 KiB then.
	maxSize = 128 << 10
	// fileFields is what the API server notes of one file beside its URL: which fields of it who wrote.
	fileFields = 200
)

// tooLarge is why the source cannot list the images; nil when it can.
func tooLarge(src *v1alpha1.FirmwareSource, images []artifact.Image) error {
	size := v1alpha1.SizeOf(src.Spec) + v1alpha1.SizeOf(src.Annotations) + v1alpha1.SizeOf(stored(images))
	for _, f := range src.Spec.Files {
		size += len(f.URL) + fileFields
	}
	var err error
	switch {
	case len(images) > maxImages:
		err = fmt.Errorf("the source lists %d images, the limit is %d; split it", len(images), maxImages)
	case size > maxSize:
		err = fmt.Errorf("the source and the list of its %d images take %d KiB, the limit is %d KiB; split it, or leave models and boardIDs "+
			"out that no device here has", len(images), (size+1023)>>10, maxSize>>10)
	default:
		return nil
	}
	return &artifact.Error{Reason: artifact.InvalidSpec, Err: err}
}

// known are the images that the source listed before.
func known(src *v1alpha1.FirmwareSource, images []artifact.Image) []artifact.Image {
	listed := map[string]bool{}
	for _, i := range src.Status.Images {
		listed[string(i.Digest)] = true
	}
	var out []artifact.Image
	for _, i := range images {
		if listed[i.Digest.String()] {
			out = append(out, i)
		}
	}
	return out
}
