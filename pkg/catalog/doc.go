// Package catalog reads which firmware versions exist: the metadata of providers, as streams, for the components of one machine
// model. It opens no connections; callers pass it readers.
package catalog
