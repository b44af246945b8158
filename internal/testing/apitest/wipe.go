package apitest

import (
	"context"
	"errors"
	"fmt"
	"time"

	maintenancev1alpha1 "github.com/Mellanox/maintenance-operator/api/v1alpha1"
	"golang.org/x/sync/errgroup"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// policies come first, so that they cannot block the rest.
func policies() []client.ObjectList {
	return []client.ObjectList{
		&admissionregistrationv1.ValidatingAdmissionPolicyBindingList{}, &admissionregistrationv1.ValidatingAdmissionPolicyList{},
	}
}

// wiped are the kinds that are emptied before a test.
func wiped() []client.ObjectList {
	return []client.ObjectList{
		&v1alpha1.FirmwareTemplateList{}, &v1alpha1.ConfigurationTemplateList{}, &v1alpha1.FirmwareSourceList{}, &v1alpha1.FirmwareCatalogList{}, &v1alpha1.FirmwareQuarantineList{}, &v1alpha1.RolloutPolicyList{}, &v1alpha1.CleaningPolicyList{},
		&v1alpha1.SanitizationCertificateList{},
		&v1alpha1.FirmwareJobList{}, &v1alpha1.NodeDeviceList{}, &v1alpha1.NodeFirmwareList{},
		&maintenancev1alpha1.NodeMaintenanceList{}, &maintenancev1alpha1.MaintenanceOperatorConfigList{},
		&corev1.PodList{}, &corev1.NodeList{}, &eventsv1.EventList{},
	}
}

// wipedInNamespace are the kinds that are emptied in the product's namespace before a test.
func wipedInNamespace() []client.ObjectList {
	return []client.ObjectList{
		&corev1.SecretList{}, &corev1.ConfigMapList{}, &corev1.ServiceAccountList{}, &coordinationv1.LeaseList{},
	}
}

// wipeTimeout is for a machine that does much else.
const wipeTimeout = 5 * time.Minute

func (e *Env) wipe(ctx context.Context) error {
	for _, list := range policies() {
		if err := e.wipeAll(ctx, list); err != nil {
			return err
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, list := range wiped() {
		group.Go(func() error { return e.wipeAll(ctx, list) })
	}
	for _, list := range wipedInNamespace() {
		group.Go(func() error { return e.wipeAll(ctx, list, client.InNamespace(Namespace)) })
	}
	return group.Wait()
}

// wipeAll deletes every object of a kind, whatever finalizers it has, and waits until all are gone.
func (e *Env) wipeAll(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	err := wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, wipeTimeout, true, func(ctx context.Context) (bool, error) {
		if err := e.Client.List(ctx, list, options...); err != nil {
			return false, err
		}
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(8)
		err := meta.EachListItem(list, func(o runtime.Object) error {
			group.Go(func() error { return e.remove(ctx, o.(client.Object)) })
			return nil
		})
		return meta.LenList(list) == 0, errors.Join(err, group.Wait())
	})
	if err != nil {
		return fmt.Errorf("delete what is in %T: %w", list, err)
	}
	return nil
}

func (e *Env) remove(ctx context.Context, o client.Object) error {
	if len(o.GetFinalizers()) > 0 {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
		if err := e.Client.Patch(ctx, o, patch); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	if err := e.Client.Delete(ctx, o, client.GracePeriodSeconds(0)); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	return nil
}
