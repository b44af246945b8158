// Package maintenance simulates the maintenance-operator: it takes NodeMaintenance objects through the same states
// under the same limits, cordons and drains, holds objects for additional requestors, and garbage-collects old ones.
//
// It was written after github.com/Mellanox/maintenance-operator at commit e15d07b, and both pass the contract of package
// windowtest. A lab runs the real one in its place with Options.MaintenanceOperator. Both do what one might not expect:
//
//   - maxParallelOperations 0 is no slot, and a configuration without it, or none, is one slot.
//   - Not the oldest begins: a requestor that has one in progress goes before others, then the one with the fewest pending. Only the
//     first of them, as many as there are slots, are looked at.
//   - A Node without a condition Ready counts as ready.
//   - With force the drain takes finished pods, and pods of a DaemonSet that does not exist.
//   - Ready has no message: the pods that are waited for are in status.drain.waitForEviction and status.waitForCompletion.
//   - A Node owns its maintenances, and a node that is cordoned already is left cordoned at the end.
//   - A deleted maintenance is kept, and its node cordoned, for as long as it has additional requestors.
//
// The differences that are left: it looks every 150 ms and not every ten seconds and collects as often; where the drain
// cannot take a pod at all, it tries again and does not begin the drain anew; it pauses no MachineConfigPool and has no webhook. The
// lab has no garbage collector either, which would delete a maintenance with its Node.
package maintenance
