// Package bench runs the benchmarks of a package once, as a test, so that one that fails does not stay unnoticed.
package bench
