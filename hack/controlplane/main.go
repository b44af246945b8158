// Command controlplane prints a directory that holds etcd and kube-apiserver, for KUBEBUILDER_ASSETS. Where there is
// none yet it downloads or builds them, which takes several minutes once. CONTROLPLANE_RELEASE=oldest asks for the oldest release of
// Kubernetes that the product supports.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/controlplane"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	dir, err := locate(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "controlplane:", err)
		os.Exit(1)
	}
	fmt.Println(dir)
}

func locate(ctx context.Context) (string, error) {
	locator, err := controlplane.NewLocator(os.Stderr)
	if err != nil {
		return "", err
	}
	return locator.Locate(ctx)
}
