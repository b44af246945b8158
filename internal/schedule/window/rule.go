package window

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// The bounds of a duration.
const (
	MinDuration = time.Minute
	MaxDuration = 31 * 24 * time.Hour
)

// Rule is a span of time: one that recurs, or one with a start and an end.
type Rule struct {
	// Name is what people call it.
	Name string
	// Zone is the time zone in which people think of it.
	Zone *time.Location

	schedule   cron.Schedule // nil for one that does not recur
	duration   time.Duration
	start, end time.Time
}

// FieldError says what is wrong with a field of a rule.
type FieldError struct {
	// Field is the name of the field in the API.
	Field string
	Err   error
}

func (e *FieldError) Error() string { return fmt.Sprintf("%s: %s", e.Field, e.Err) }

// Unwrap returns the cause.
func (e *FieldError) Unwrap() error { return e.Err }

// parser knows the five fields of cron and descriptors such as @weekly: no seconds, and what it is told about time zones is refused
// before.
var parser = cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)

// parse reads a schedule. Of the days of the week, 7 is Sunday as 0 is, which the parser does not know.
func parse(schedule string) (cron.Schedule, error) {
	fields := strings.Fields(schedule)
	if strings.HasPrefix(schedule, "@every") {
		return nil, errors.New("@every has no time on the wall; give the five fields of cron")
	}
	if len(fields) == 5 {
		fields[4] = sundays(fields[4])
	}
	return parser.Parse(strings.Join(fields, " "))
}

// sundays writes the days of the week without 7: 5-7 is 5-6,0.
func sundays(days string) string {
	list := strings.Split(days, ",")
	for i, part := range list {
		days, step, _ := strings.Cut(part, "/")
		if step != "" {
			step = "/" + step
		}
		from, to, isRange := strings.Cut(days, "-")
		switch {
		case days == "7":
			list[i] = "0" + step
		case isRange && to == "7" && from == "7":
			list[i] = "0"
		case isRange && to == "7":
			list[i] = from + "-6" + step
			if n, err := strconv.Atoi(from); err == nil && (step == "" || step == "/1" || endsOn7(n, step)) {
				list[i] += ",0"
			}
		}
	}
	return strings.Join(list, ",")
}

// endsOn7 reports whether steps from a day reach 7.
func endsOn7(from int, step string) bool {
	n, err := strconv.Atoi(strings.TrimPrefix(step, "/"))
	return err == nil && n > 0 && (7-from)%n == 0
}

// Recurring is a span that begins whenever the five cron fields of schedule match the clock on the wall in the time zone,
// and lasts for the duration, which is elapsed time. The zone is a name of the IANA database; "" is UTC. The error is a
// *FieldError.
func Recurring(name, schedule string, duration time.Duration, timeZone string) (Rule, error) {
	zone, err := zoneOf(timeZone)
	if err != nil {
		return Rule{}, err
	}
	if duration < MinDuration || duration > MaxDuration {
		return Rule{}, &FieldError{"duration", fmt.Errorf("%s is not from 1m to 744h", duration)}
	}
	if strings.Contains(schedule, "=") {
		return Rule{}, &FieldError{"schedule", errors.New("a time zone belongs into timeZone")}
	}
	parsed, err := parse(schedule)
	if err != nil {
		return Rule{}, &FieldError{"schedule", err}
	}
	r := Rule{Name: name, Zone: zone, schedule: parsed, duration: duration}
	if r.following(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return Rule{}, &FieldError{"schedule", fmt.Errorf("%q never comes: no month has such a day", schedule)}
	}
	return r, nil
}

// Once is a span from start to end. The error is a *FieldError.
func Once(name string, start, end time.Time) (Rule, error) {
	if !end.After(start) {
		return Rule{}, &FieldError{"endTime", fmt.Errorf("%s is not after startTime %s", end.UTC().Format(time.RFC3339), start.UTC().Format(time.RFC3339))}
	}
	return Rule{Name: name, Zone: time.UTC, start: start, end: end}, nil
}

func zoneOf(name string) (*time.Location, error) {
	if name == "Local" { // what the operator's own pod has says nothing
		return nil, &FieldError{"timeZone", errors.New("the zone Local is that of the operator's pod; name one of the IANA database, such as Europe/Paris")}
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, &FieldError{"timeZone", fmt.Errorf("%q is not known; name a zone of the IANA database, such as Europe/Paris", name)}
	}
	return zone, nil
}

// following is the next time on the wall, after the given one, that the schedule matches; zero when there is none.
func (r Rule) following(wall time.Time) time.Time {
	next := r.schedule.Next(wall)
	if next.IsZero() { // the parser's library looks five years ahead; 29 February can be eight years away
		next = r.schedule.Next(wall.AddDate(4, 0, 0))
	}
	return next
}
