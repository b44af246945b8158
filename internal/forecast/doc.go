// Package forecast says what the operator is about to do with a cluster: which jobs it makes, what they change and disturb, in which wave and
// when. It decides nothing: it asks the functions by which the operator decides, and plays updates that succeed. It is pure.
package forecast
