package command

// Installed returns an *Error that wraps ErrNotFound when the runner knows that it has no such tool. It runs nothing.
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
