// Package commandtest plays vendor tools for tests of the code that runs them.
package commandtest
