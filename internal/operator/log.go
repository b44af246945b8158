package operator

import (
	"context"
	"log/slog"
)

// leaseLost is the error with which the manager reports that it leads no longer, also when it gave its lease back because the
// process ends.
const leaseLost = "leader election lost"

// stopLog is a log in which a lease that is given back at the end of the process is no error.
type stopLog struct {
	slog.Handler
	stop context.Context
}

// Handle passes the record on.
func (l stopLog) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelError && l.stop.Err() != nil && reports(r, leaseLost) {
		r = slog.NewRecord(r.Time, slog.LevelInfo, "Gave the lease of the leader back", r.PC)
	}
	return l.Handler.Handle(ctx, r)
}

// WithAttrs keeps the rule.
func (l stopLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return stopLog{l.Handler.WithAttrs(attrs), l.stop}
}

// WithGroup keeps the rule.
func (l stopLog) WithGroup(name string) slog.Handler {
	return stopLog{l.Handler.WithGroup(name), l.stop}
}

// reports tells whether an attribute of the record is an error with that text.
func reports(r slog.Record, text string) (is bool) {
	r.Attrs(func(a slog.Attr) bool {
		err, ok := a.Value.Any().(error)
		is = ok && err.Error() == text
		return !is
	})
	return is
}
