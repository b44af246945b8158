// Package deploy embeds the manifests of the product, so that tests and the lab apply the same manifests as a cluster.
package deploy
