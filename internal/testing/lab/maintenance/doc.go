// Package maintenance simulates the maintenance-operator: it takes NodeMaintenance objects through the same states
// under the same limits, cordons and drains, holds objects for additional requestors, and garbage-collects old ones.
//
// It was written after github.com/Mellanox/maintenance-operator at commit e15d07b, and both pass the contract of package
// windowtest. The differences that are left: it looks every 150 ms and not every ten seconds and collects as often; where the drain
// cannot take a pod at all, it tries again and does not begin the drain anew; it pauses no MachineConfigPool and has no webhook. The
// lab has no garbage collector either, which would delete a maintenance with its Node.
package maintenance
