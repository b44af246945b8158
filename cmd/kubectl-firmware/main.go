// Command kubectl-firmware is a plugin of kubectl: kubectl firmware shows the firmware of a cluster's nodes.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // what a kubeconfig may name

	"github.com/nodefirmware/node-firmware-operator/internal/kubectl"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the second one ends the program at once
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	os.Exit(kubectl.Run(ctx, os.Args[1:], streams))
}
