// Package export sends a collector of OpenTelemetry what became of an edit: one trace over the match, the jobs, their admission and steps, and
// the verdict. Everything in it is read from the objects of the API server, so that the daemons export nothing, and what is sent again after
// a restart has the same ids.
package export
