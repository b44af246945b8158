package main

import (
	"github.com/nodefirmware/node-firmware-operator/internal/config"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/runner"
	"github.com/nodefirmware/node-firmware-operator/internal/operator"
)

// strategies are the update strategies that this operator knows.
func strategies(c config.Operator) []operator.Strategy {
	return []operator.Strategy{operator.Daemon{}, runner.Pods{Namespace: c.Namespace, DaemonSet: c.DaemonName, HandlersFile: c.PodHandlers}}
}
