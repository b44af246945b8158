// Package maintenance simulates the maintenance-operator: it takes NodeMaintenance objects through the same states
// under the same limits, cordons and drains, holds objects for additional requestors, and garbage-collects old ones.
package maintenance
