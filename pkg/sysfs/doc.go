// Package sysfs reads what the kernel knows of a machine's hardware from the files below a host root.
//
// Every reader takes the file system rooted at the host's "/", which must be able to read symbolic links, and opens only
// paths below "sys" and "proc". Of a Tree (DirFS), ghw reads what it can. Attributes that are absent or empty are empty
// strings or nil; those that cannot be read are errors that name their path. An error of one entry is in its Err, so that it
// hides no sibling; an error returned by a reader means that the list is not complete. No reader runs a tool,
// writes, or touches the network; Tree.Store and
// Tree.StoreAt are what writes.
package sysfs
