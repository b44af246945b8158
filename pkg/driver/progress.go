package driver

// Progress takes the percentage done, from 0 to 100. It must not block. It is called while Write runs and by one goroutine
// at a time, which need not be Write's.
type Progress func(percent int)

// Lines reads the progress of a tool from the lines it prints, for command.Command: parse finds the percentage in a line.
// Only increases are reported, because tools start again from 0 for each part of an image, and never 100, which Write reports once the
// device has taken the image. The result is nil if nobody wants the progress.
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
