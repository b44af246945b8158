// Package status maps facts to conditions. It is the only place that sets them; there is one file for each kind.
package status
