// Package maintenance simulates the maintenance-operator: it takes NodeMaintenance objects through the same states,
// cordons and drains, and holds objects for additional requestors.
//
// It was written after github.com/Mellanox/maintenance-operator at commit e15d07b, and both pass the contract of package
// maintenancetest. A lab runs the real one in its place with Options.MaintenanceOperator. Both do what one might not expect:
//
//   - With force the drain takes finished pods, and pods of a DaemonSet that does not exist.
//   - Ready has no message: the pods that are waited for are in status.drain.waitForEviction.
//   - A Node owns its maintenances, and a node that is cordoned already is left cordoned at the end.
//   - A deleted maintenance is kept, and its node cordoned, for as long as it has additional requestors.
//
// The differences that are left: it has no limits, which the labs would lift, and begins the oldest maintenance of each node; it
// collects none that is old, and waits for no pod to complete; it looks every 150 ms and not every ten seconds; where the drain
// cannot take a pod at all, it tries again and does not begin the drain anew; it pauses no MachineConfigPool and has no webhook. The
// lab has no garbage collector either, which would delete a maintenance with its Node.
package maintenance
