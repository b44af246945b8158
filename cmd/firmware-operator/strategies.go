package main

import (
	"github.com/nodefirmware/node-firmware-operator/internal/config"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/runner"
	"github.com/nodefirmware/node-firmware-operator/internal/strategy"
)

// strategies are the update strategies that this operator knows.
func strategies(c config.Operator) []strategy.Strategy {
	return []strategy.Strategy{strategy.Daemon{}, runner.Pods{Namespace: c.Namespace, DaemonSet: c.DaemonName, HandlersFile: c.PodHandlers}}
}
