// Package engine executes firmware jobs on the host it runs on, step by step, from a durable journal. It asks no API server:
// local mode and the simulated hosts of the tests run it without one. Of the API it knows only the values that the journal
// keeps, such as v1alpha1.Digest and v1alpha1.AppliedFirmware.
package engine
