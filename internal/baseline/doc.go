// Package baseline tells which nodes are equal, and in what two of them are not.
package baseline
