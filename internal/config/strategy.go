package config

// The update strategies of the product: who executes the jobs of a node.
const (
	// StrategyDaemon executes jobs in the daemon of the node.
	StrategyDaemon = "daemon"
	// StrategyPod executes each job in a pod of its own.
	StrategyPod = "pod"
)
