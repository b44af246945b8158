// Package maintenance takes nodes out of service and returns them, at the request of their daemons, in clusters without a
// maintenance-operator.
package maintenance
