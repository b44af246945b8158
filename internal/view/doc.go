// Package view serves the fleet as a page for the browser of one person, on loopback, with that person's rights, and only to read: the picture of the
// fleet is a pure function of the objects that informers hold, and what differs from the last one is pushed.
package view
