// Package explain says for a person why the objects of the API are as they are, how they stand and which of them need somebody, by what their
// conditions say. It decides nothing.
package explain
