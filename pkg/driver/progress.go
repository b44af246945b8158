package driver

// Progress takes the percentage done, from 0 to 100. It must not block. It is called while Write runs and by one goroutine
// at a time, which need not be Write's.
type Progress func(percent int)

// Lines reads the progress of a tool from the lines it prints, for command.Command: parse finds the percentage in a line.
// Only what rises is reported, because tools count each part of an image anew, and nothing from 100 on, which Write reports
// when the device took the image. It is nil where progress is not reported.
func (p Progress) Lines(parse func(line string) (percent int, found bool)) func(line string) {
	if p == nil {
		return nil
	}
	highest := -1
	return func(line string) {
		if n, found := parse(line); found && n > highest && n < 100 {
			highest = n
			p(n)
		}
	}
}
