// Package mirror is a publisher of firmware with a server of its own, as a vendor or a company has one: an HTTPS server with a
// private authority that asks for a password, behind the proxy through which a data centre reaches it, with signed archives.
package mirror
