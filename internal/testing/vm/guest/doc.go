// Package guest is what runs inside the lab's virtual machine besides the daemon: its first process, which mounts, loads
// modules and starts the daemon again when it dies, and an agent through which the lab looks at the machine and disturbs it.
//
// It is linked under the names init and systemctl.
package guest
