package command

import "errors"

// Unusable reports whether an error says that a tool does not work on this machine at all: it is missing, is refused, or cannot be
// executed. Nothing was run then, and a driver can do without the tool where it has another way.
func Unusable(err error) bool {
	return errors.Is(err, ErrNotFound) || errors.Is(err, ErrRefused) || errors.Is(err, ErrCannotRun)
}

// Installed returns an *Error that wraps ErrNotFound when the runner knows that it has no such tool, and one that wraps ErrRefused
// when it would not run it. It runs nothing.
func Installed(r Runner, tool string) error {
	finder, ok := r.(interface{ Installed(tool string) error })
	if !ok {
		return nil
	}
	return finder.Installed(tool)
}

// Installed looks the tool up as Run does.
func (r *ExecRunner) Installed(tool string) error {
	if _, err := r.find(tool); err != nil {
		return failedToRun(Command{Argv: []string{tool}}, err)
	}
	return nil
}
