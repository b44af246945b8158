// Package cleaning decides which steps of a CleaningPolicy run on a node. It is pure: facts in, a decision out.
package cleaning
