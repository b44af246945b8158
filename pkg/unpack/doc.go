// Package unpack reads archives that nobody vouches for yet, member by member and within bounds, and writes nothing.
package unpack
