// Package text bounds texts that people read, and spells names so that they can be compared.
package text
