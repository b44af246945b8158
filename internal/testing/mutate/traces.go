package mutate

// traces are defects of what a collector is sent of jobs, and of what it costs where nobody asked for it.
func traces() []Mutant {
	const in = "internal/trace/export/"
	return []Mutant{
		{What: "all edits of a template have one trace", File: "internal/trace/trace.go", Run: "^TestEachEditHasATrace$", Old: "strconv.FormatInt(o.Generation, 10)", New: "strconv.FormatInt(0*o.Generation, 10)"},
		{What: "each change of a job exports its spans again", File: in + "watch.go", Run: "^TestOneTraceFromEditToVerdict$", Old: "if !had[s.at.SpanID()] {", New: "if !had[s.at.SpanID()] || len(now) > 0 {"},
		{What: "what a killed operator had not sent is lost", File: in + "watch.go", Run: "^TestTraceSurvivesAKill$", Old: "w.Now().Sub(end) > memory", New: "memory > 0"},
		{What: "the match ends with whichever job is seen first", File: in + "watch.go", Run: "^TestEditsHoldNoHandlerUp$", Old: "if queued.Before(o.first) {", New: "if queued.Before(o.first) && o.jobs > 99 {"},
		{What: "a trace is remembered without jobs", File: in + "watch.go", Run: "^TestTracesGoWithTheirJobs$", Old: "o.jobs--; o.jobs == 0", New: "o.jobs--; o.jobs < 0"},
		{What: "a job has several spans in one trace", File: "internal/trace/trace.go", Run: "^TestLinksAreBounded$", Old: "had[s.TraceID()] = true", New: "had[s.TraceID()] = false"},
		{What: "a malformed attribute stops the operator", File: in + "exporter.go", Run: "^TestBadResourceStopsNobody$", Old: "ErrPartialResource) { // the", New: "ErrPartialResource) && ctx == nil { // the"},
		{What: "a start drops spans", File: in + "exporter.go", Run: "^TestStartDropsNoSpan$", Old: "sdktrace.WithBatcher(sender, sdktrace.WithBlocking())", New: "sdktrace.WithBatcher(sender)"},
		{What: "a trace of a person is left", File: in + "job.go", Run: "^TestJobOfAPersonHasItsOwnTrace$", Old: "parent.IsValid() {\n\t\treturn within(parent, at)", New: "parent.IsValid() && j == nil {\n\t\treturn within(parent, at)"},
		{What: "only the first template leads to the result", File: in + "exporter.go", Run: "^TestEachTemplateLeadsToTheResult$", Old: "if len(matches) > 1 {", New: "if len(matches) > 99 {"},
		{What: "credentials of the collector are logged", File: in + "exporter.go", Run: "^TestNoCredentialIsTold$", Old: "logr.FromSlogHandler(wordless{log.Handler()})", New: "logr.FromSlogHandler(log.Handler())"},
		{What: "traces that were switched off are exported", File: "internal/config/traces.go", Run: "^TestTracesOfTheEnvironment$", Old: " && !t.Disabled", New: ""},
		{What: "no log of a node names the trace", File: "internal/node/journal/job.go", Packages: []string{"internal/node/engine"}, Run: "^TestLogNamesTheTrace$", Old: "len(fields) == 4 {", New: "len(fields) == 5 {"},
	}
}
