// Package table prints rows for people, in aligned columns that fit into a terminal.
package table
