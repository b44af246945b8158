// Package model runs the pure step machine through random schedules: a host of plain values, a virtual clock and no I/O.
// It judges every decision against the invariants of the update transaction.
package model
