package operator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/discovery"
	authenticationv1 "k8s.io/client-go/kubernetes/typed/authentication/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/config"
	"github.com/nodefirmware/node-firmware-operator/internal/controller"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/storedversion"
	"github.com/nodefirmware/node-firmware-operator/internal/imageserver"
	fleetmetrics "github.com/nodefirmware/node-firmware-operator/internal/metrics"
	"github.com/nodefirmware/node-firmware-operator/internal/trace/export"
	"github.com/nodefirmware/node-firmware-operator/pkg/artifact"
)

// wire adds every reconciler and server to the manager. stop releases what outlives the manager.
func wire(ctx context.Context, mgr manager.Manager, c config.Operator, chosen Strategy, stored storedversion.Options) (stop func(), err error) {
	progress := &storedversion.Progress{}
	collector := fleetmetrics.NewCollector(mgr.GetClient(), mgr.Elected(), progress, mgr.GetLogger().WithName("metrics"))
	stop = func() { metrics.Registry.Unregister(collector) }
	if err := metrics.Registry.Register(collector); err != nil {
		return func() {}, fmt.Errorf("register metrics: %w", err)
	}
	fetcher := artifact.NewFetcher(artifact.FetchConfig{
		FileRoot: c.FileSourceDir, Private: c.PrivateSources, Refused: c.RefusedSources, Hosts: c.SourceHosts,
		Log: slog.New(logr.ToSlogHandler(mgr.GetLogger().WithName("fetch"))),
	})
	store, err := artifact.OpenStore(c.StoreDir, fetcher, time.Now)
	if err != nil {
		return stop, fmt.Errorf("open image store %s: %w", c.StoreDir, err)
	}
	mark, closeTraces, err := addTraces(ctx, mgr, c.Traces)
	unregister := stop
	stop = func() { unregister(); closeTraces() }
	if err != nil {
		return stop, err
	}
	if err := controller.SetupWithManager(ctx, mgr, c, store, fetcher, mark); err != nil {
		return stop, err
	}
	if err := storedversion.New(mgr.GetClient(), mgr.GetAPIReader(), mgr.GetRESTMapper(), time.Now, progress, stored).SetupWithManager(mgr); err != nil {
		return stop, fmt.Errorf("set up storedversion controller: %w", err)
	}
	if err := chosen.SetupWithManager(mgr); err != nil {
		return stop, fmt.Errorf("set up update strategy %s: %w", chosen.Name(), err)
	}
	return stop, addImageServer(mgr, c, store)
}

// addTraces exports what becomes of jobs, where a collector is configured. Mark is for the planner, nil where there is none, and stop sends
// what waits. Without a collector nothing of that is begun.
func addTraces(ctx context.Context, mgr manager.Manager, t config.Traces) (mark func(*v1alpha1.FirmwareJob, []v1alpha1.NodeDevice), stop func(), err error) {
	if !t.On() {
		return nil, func() {}, nil
	}
	log := slog.New(logr.ToSlogHandler(mgr.GetLogger().WithName("traces")))
	exporter, err := export.Start(ctx, t, log)
	if err != nil {
		return nil, func() {}, err
	}
	stop = func() { exporter.Close(log) }
	watcher := &export.Watcher{Exporter: exporter, Cache: mgr.GetCache(), Direct: mgr.GetAPIReader(), Log: log, Now: time.Now}
	if err := mgr.Add(watcher); err != nil {
		return nil, stop, fmt.Errorf("add export of traces: %w", err)
	}
	return exporter.Mark, stop, nil
}

// issuer is the issuer of this cluster's tokens, as this process's own token, which is replaced from time to time, names it now,
// or "".
func issuer(access *rest.Config) string {
	token := access.BearerToken
	if access.BearerTokenFile != "" {
		if text, err := os.ReadFile(access.BearerTokenFile); err == nil {
			token = string(text)
		}
	}
	return imageserver.IssuerOf(token)
}

// addImageServer serves the store to the daemons of the product's own namespace.
func addImageServer(mgr manager.Manager, c config.Operator, store *artifact.Store) error {
	direct, err := client.New(mgr.GetConfig(), client.Options{Scheme: mgr.GetScheme()})
	if err != nil {
		return fmt.Errorf("make client of the image server: %w", err)
	}
	reviews, err := authenticationv1.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("make client of token reviews: %w", err)
	}
	tokens, err := imageserver.NewTokenReviewer(reviews, v1alpha1.ImageTokenAudience,
		fmt.Sprintf("system:serviceaccount:%s:%s", c.Namespace, c.DaemonName), func() string { return issuer(mgr.GetConfig()) })
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", c.ImageServerAddress)
	if err != nil {
		return fmt.Errorf("listen for daemons (--image-server-bind-address): %w", err)
	}
	certificates := &imageserver.Certificates{Client: direct, Namespace: c.Namespace, Names: c.ImageServerNames, Address: c.PublishedImageServer(), Now: time.Now}
	server := &imageserver.Server{
		Listener: listener, Certificate: certificates.Get,
		Handler: imageserver.Handler(store, tokens, mgr.GetLogger().WithName("images"), imageserver.Limits{}),
	}
	if err := mgr.Add(certificates); err != nil {
		return fmt.Errorf("add image server certificates: %w", err)
	}
	if err := mgr.Add(server); err != nil {
		return fmt.Errorf("add image server: %w", err)
	}
	return nil
}

// resources are the resources of the product's custom resource definitions.
var resources = []string{
	"cleaningpolicies", "configurationtemplates", "firmwarecatalogs", "firmwarejobs", "firmwarequarantines", "firmwaresources", "firmwaretemplates", "nodedevices", "nodefirmwares", "rolloutpolicies", "sanitizationcertificates",
}

// storedVersions looks at each definition once a minute, and gives the API servers of a cluster half a minute to learn of a change.
func storedVersions() storedversion.Options {
	o := storedversion.Options{Every: time.Minute, Settles: 30 * time.Second}
	for _, resource := range resources {
		o.Definitions = append(o.Definitions, resource+"."+v1alpha1.GroupName)
	}
	return o
}

// retryAPI is the wait between two attempts to reach an API server that does not answer.
const retryAPI = 2 * time.Second

// awaitAPI waits until the API server answers, and fails when it does not serve the product's kinds: a restart does not
// help then, a person has to apply them.
func awaitAPI(ctx context.Context, api discovery.ServerResourcesInterface, log *slog.Logger) error {
	for {
		err := checkKinds(api)
		if err == nil || isMissing(err) {
			return err
		}
		log.Info("Waiting for the API server", "err", err.Error())
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(retryAPI):
		}
	}
}

// missingError names the kinds the API server does not serve.
type missingError struct{ resources []string }

func (e *missingError) Error() string {
	return fmt.Sprintf("the API server serves no %s of %s: apply the custom resource definitions of this version "+
		"(kubectl apply --server-side -k deploy/kustomize/crd) and start again", strings.Join(e.resources, ", "), v1alpha1.GroupVersion)
}

func isMissing(err error) bool {
	var missing *missingError
	return errors.As(err, &missing)
}

func checkKinds(api discovery.ServerResourcesInterface) error {
	list, err := api.ServerResourcesForGroupVersion(v1alpha1.GroupVersion.String())
	if apierrors.IsNotFound(err) {
		return &missingError{resources}
	}
	if err != nil {
		return fmt.Errorf("discover %s: %w", v1alpha1.GroupVersion, err)
	}
	missing := slices.Clone(resources)
	for _, served := range list.APIResources {
		missing = slices.DeleteFunc(missing, func(name string) bool { return name == served.Name })
	}
	if len(missing) > 0 {
		return &missingError{missing}
	}
	return nil
}
