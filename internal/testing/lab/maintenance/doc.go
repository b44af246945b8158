// Package maintenance stands in for the maintenance-operator where there is none: it takes NodeMaintenance objects
// through the same states under the same limits, cordons and drains, holds objects for additional requestors, and
// collects forgotten ones.
package maintenance
