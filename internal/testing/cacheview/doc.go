// Package cacheview shows the objects of a client as the operator's cache holds them, so that a reconciler that reads what the cache
// does not keep fails in its own tests.
package cacheview
