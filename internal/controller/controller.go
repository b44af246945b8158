package controller

import (
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/config"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/catalog"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/internal/access"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/internal/index"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/node"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/planner"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/protection"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/provenance"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/quarantine"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/rollout"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/source"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/template"
	"github.com/nodefirmware/node-firmware-operator/internal/queue"
	"github.com/nodefirmware/node-firmware-operator/pkg/artifact"
)

// SetupWithManager adds every reconciler to the manager, and the indexes they list by. Images are kept in store; catalogs are read by
// the fetcher.
func SetupWithManager(ctx context.Context, mgr manager.Manager, c config.Operator, store *artifact.Store, fetcher *artifact.Fetcher) error {
	if err := index.Register(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	recorder := mgr.GetEventRecorder(v1alpha1.FieldOwnerOperator)
	sources := &source.Reconciler{Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Store: store, Namespace: c.Namespace, Events: recorder, Now: time.Now}
	queues := queue.New(time.Now)
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
	return addMaintenance(mgr, c)
}
