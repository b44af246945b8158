// Package host finds the updatable devices of one machine and reads them through their drivers.
package host
