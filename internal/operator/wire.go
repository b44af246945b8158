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
	"github.com/nodefirmware/node-firmware-operator/internal/controller"
	"github.com/nodefirmware/node-firmware-operator/internal/imageserver"
	fleetmetrics "github.com/nodefirmware/node-firmware-operator/internal/metrics"
	"github.com/nodefirmware/node-firmware-operator/pkg/artifact"
)

// wire adds every reconciler and server to the manager. stop releases what outlives the manager.
func wire(ctx context.Context, mgr manager.Manager, c config.Operator, chosen Strategy) (stop func(), err error) {
	collector := fleetmetrics.NewCollector(mgr.GetClient(), mgr.Elected(), mgr.GetLogger().WithName("metrics"))
	stop = func() { metrics.Registry.Unregister(collector) }
	if err := metrics.Registry.Register(collector); err != nil {
		return func() {}, fmt.Errorf("register metrics: %w", err)
	}
	fetcher := artifact.NewFetcher(artifact.FetchConfig{
		FileRoot: c.FileSourceDir, Private: c.PrivateSources, Refused: c.RefusedSources,
		Log: slog.New(logr.ToSlogHandler(mgr.GetLogger().WithName("fetch"))),
	})
	store, err := artifact.OpenStore(c.StoreDir, fetcher, time.Now)
	if err != nil {
		return stop, fmt.Errorf("open image store %s: %w", c.StoreDir, err)
	}
	if err := controller.SetupWithManager(ctx, mgr, c, store, fetcher); err != nil {
		return stop, err
	}
	if err := chosen.SetupWithManager(mgr); err != nil {
		return stop, fmt.Errorf("set up update strategy %s: %w", chosen.Name(), err)
	}
	return stop, addImageServer(mgr, c, store)
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
