// Package index names the cache indexes that reconcilers share and registers them.
package index
