// Package due decides which updates one node needs now, and which job makes them. It is pure: facts in, a decision out.
package due
