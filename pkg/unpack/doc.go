// Package unpack reads untrusted archives member by member, within strict limits. It writes nothing.
package unpack
