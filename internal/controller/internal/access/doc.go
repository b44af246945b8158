// Package access reads the Secret and the ConfigMap that a spec names for the servers that files come from.
package access
