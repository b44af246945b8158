// Package job takes the FirmwareJobs of a node up, hands them to the engine, and reports how far they are.
package job
