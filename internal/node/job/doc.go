// Package job hands the FirmwareJobs of a node to the engine and reports how far they are.
package job
