// Package pause waits between two requests to a server, for as long as the server asked for.
package pause
