// Package wire translates between the values of this product and the messages of the plugin protocol, and refuses messages
// that say what this product does not know.
package wire
