// Package reading reads objects from the API server for a person who asked: large lists a page at a time.
package reading
