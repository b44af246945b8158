// Package controller puts the reconcilers of the operator together. Each concern has a package of its own below it.
package controller
