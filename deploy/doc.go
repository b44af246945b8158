// Package deploy holds the manifests of the product, so that tests and the lab apply what a cluster gets.
package deploy
