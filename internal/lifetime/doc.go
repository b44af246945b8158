// Package lifetime computes when devices fail: by the limits of the vulnerabilities that catalogs list for their firmware, and the hours for
// which they have been powered on. It decides nothing.
package lifetime
