// Package mutate checks that the tests notice a wrong decision. It holds deliberate defects of the code that decides, builds
// the product with each of them, and expects a test to fail.
package mutate
