// Command acme-drive is an example of a plugin: it drives a made-up drive whose flash memory is two files of a directory.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/plugin"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/plugin/pluginserver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

func main() {
	socket := flag.String("socket", plugin.DefaultDir+"/"+name+".sock", "socket to serve")
	dir := flag.String("dir", "/var/lib/acme-drive", "directory with a directory for each drive, named by its unique id")
	model := flag.String("model", "ACME Filedrive", "model of the drives to claim")
	board := flag.String("board", "", "with --version: print an image for this board and end")
	version := flag.String("version", "", "version of the image to print")
	flag.Parse()
	var err error
	if *board != "" {
		_, err = os.Stdout.Write(newImage(*board, inventory.Version(*version), payload))
	} else {
		err = serve(*socket, *dir, *model)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

// serve returns when the process is told to end and the last write has ended.
func serve(socket, dir, model string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	return pluginserver.Serve(ctx, drives{dir}, socket, pluginserver.Options{
		Matches: []pluginserver.Match{{Class: inventory.Disk, Support: driver.SupportVendor, Models: []string{model}}},
		Log:     slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
}
