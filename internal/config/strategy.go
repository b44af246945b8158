package config

// The update strategies that the product brings: who executes the jobs of a node.
const (
	// StrategyDaemon leaves them to the daemon of the node.
	StrategyDaemon = "daemon"
	// StrategyPod makes a pod of each job.
	StrategyPod = "pod"
)
