// Package match decides which firmware each device of the fleet should run. It is pure: facts in, decisions out.
package match
