// Package version says which build of the product this is.
package version
