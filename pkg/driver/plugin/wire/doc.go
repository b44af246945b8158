// Package wire translates between the values of this product and the messages of the plugin protocol, and refuses
// messages with unknown or invalid values.
package wire
