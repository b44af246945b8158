package operator

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/client-go/kubernetes/typed/authentication/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/config"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/access"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/catalog"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/index"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/node"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/planner"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/protection"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/provenance"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/quarantine"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/rollout"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/room"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/source"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/template"
	"github.com/nodefirmware/node-firmware-operator/internal/imageserver"
	fleetmetrics "github.com/nodefirmware/node-firmware-operator/internal/metrics"
	"github.com/nodefirmware/node-firmware-operator/internal/strategy"
	"github.com/nodefirmware/node-firmware-operator/pkg/artifact"
)

// wire adds every reconciler and server to the manager. stop releases what outlives the manager.
func wire(ctx context.Context, mgr manager.Manager, c config.Operator, chosen strategy.Strategy) (stop func(), err error) {
	collector := fleetmetrics.NewCollector(mgr.GetClient(), mgr.Elected(), mgr.GetLogger().WithName("metrics"))
	stop = func() { metrics.Registry.Unregister(collector) }
	if err := metrics.Registry.Register(collector); err != nil {
		return func() {}, fmt.Errorf("register metrics: %w", err)
	}
	if err := index.Register(ctx, mgr.GetFieldIndexer()); err != nil {
		return stop, err
	}
	fetcher := artifact.NewFetcher(artifact.FetchConfig{
		FileRoot: c.FileSourceDir, Private: c.PrivateSources, Refused: c.RefusedSources,
		Log: slog.New(logr.ToSlogHandler(mgr.GetLogger().WithName("fetch"))),
	})
	store, err := artifact.OpenStore(c.StoreDir, fetcher, time.Now)
	if err != nil {
		return stop, fmt.Errorf("open image store %s: %w", c.StoreDir, err)
	}
	if err := addReconcilers(mgr, c, store, fetcher); err != nil {
		return stop, err
	}
	if err := addMaintenance(mgr, c); err != nil {
		return stop, err
	}
	if err := chosen.SetupWithManager(mgr); err != nil {
		return stop, fmt.Errorf("set up update strategy %s: %w", chosen.Name(), err)
	}
	return stop, addImageServer(mgr, c, store)
}

func addReconcilers(mgr manager.Manager, c config.Operator, store *artifact.Store, fetcher *artifact.Fetcher) error {
	recorder := mgr.GetEventRecorder(v1alpha1.FieldOwnerOperator)
	sources := &source.Reconciler{Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Store: store, Namespace: c.Namespace, Events: recorder, Now: time.Now}
	queues := room.New(time.Now)
	for name, add := range map[string]func(manager.Manager) error{
		"node":       func(mgr manager.Manager) error { return node.SetupWithManager(mgr, c.Namespace, node.Retention) },
		"template":   func(mgr manager.Manager) error { return template.SetupWithManager(mgr, template.Options{}) },
		"planner":    planner.New(mgr.GetClient(), recorder, time.Now, c.QuietPeriod).Within(queues).SetupWithManager,
		"rollout":    rollout.New(mgr.GetClient(), mgr.GetAPIReader(), recorder, time.Now, c.NodeName).Within(queues).Expecting(c.ExpectedJobDuration).SetupWithManager,
		"protection": protection.New(mgr.GetClient(), mgr.GetAPIReader()).SetupWithManager,
		"provenance": func(mgr manager.Manager) error {
			return provenance.SetupWithManager(mgr, provenance.Options{})
		},
		"source": sources.SetupWithManager,
		"catalog": func(mgr manager.Manager) error {
			return catalog.SetupWithManager(mgr, catalog.Options{
				Network: fetcher, Access: access.Reader{Client: mgr.GetAPIReader(), Namespace: c.Namespace}, Events: recorder,
			})
		},
		"quarantine": quarantine.New(mgr.GetClient(), recorder, time.Now).SetupWithManager,
	} {
		if err := add(mgr); err != nil {
			return fmt.Errorf("set up %s controller: %w", name, err)
		}
	}
	return nil
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
