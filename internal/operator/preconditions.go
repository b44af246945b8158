package operator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/discovery"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// resources are the resources of the product's custom resource definitions.
var resources = []string{"firmwarecatalogs", "firmwarejobs", "firmwarequarantines", "firmwaresources", "firmwaretemplates", "nodedevices", "nodefirmwares", "rolloutpolicies"}

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
