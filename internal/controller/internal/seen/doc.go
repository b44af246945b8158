// Package seen remembers when the operator first saw something. A pause is counted from then, by the operator's own clock:
// the times in objects are those of nodes and of the API server, whose clocks may differ by hours.
package seen
