package operator

import (
	"context"
	"errors"
	"log/slog"
)

// leaseLost is the error with which the manager reports that it leads no longer, also when it gave its lease back because the
// process ends.
const leaseLost = "leader election lost"

// stopLog is a log in which it is no error that the process ends: neither the lease that is given back, nor the requests that
// are cancelled, whose work the next process does.
type stopLog struct {
	slog.Handler
	stop context.Context
}

// Handle passes the record on.
func (l stopLog) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < slog.LevelError || l.stop.Err() == nil {
		return l.Handler.Handle(ctx, r)
	}
	switch err := errorOf(r); {
	case err == nil:
	case err.Error() == leaseLost:
		r = slog.NewRecord(r.Time, slog.LevelInfo, "Gave the lease of the leader back", r.PC)
	case errors.Is(err, context.Canceled):
		r = slog.NewRecord(r.Time, slog.LevelInfo, "Left to the next process", r.PC)
		r.AddAttrs(slog.String("err", err.Error()))
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

// errorOf is the first error among the attributes of the record; nil when there is none.
func errorOf(r slog.Record) (err error) {
	r.Attrs(func(a slog.Attr) bool {
		err, _ = a.Value.Any().(error)
		return err == nil
	})
	return err
}
