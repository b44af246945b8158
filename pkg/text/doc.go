// Package text bounds texts that people read.
package text
