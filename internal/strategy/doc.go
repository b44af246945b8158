// Package strategy chooses how an operator has jobs executed: exactly one way, named at its start.
package strategy
