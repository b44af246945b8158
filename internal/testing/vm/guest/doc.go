// Package guest is what runs inside the lab's virtual machine besides the daemon: its first process, which mounts file
// systems, loads modules and restarts the daemon when it dies, and an agent through which the lab inspects and disturbs
// the machine.
//
// It is linked under the names init and systemctl. The machine that boots systemd has the agent as a unit, and this program also as
// the tool of a vendor (labflash) and as the container that keeps a pod's namespaces (pause).
package guest
