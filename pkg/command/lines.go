package command

import "bytes"

// maxLine bounds a line given to Progress; the rest of a longer one is dropped.
const maxLine = 4096

// lineSplitter calls back with each line. Vendor tools redraw their progress in place with carriage returns and
// backspaces, so both end a line as well; empty lines are skipped.
type lineSplitter struct {
	line     []byte
	callback func(string)
}

// newLineSplitter returns nil, which takes and drops everything, when there is no callback.
func newLineSplitter(callback func(string)) *lineSplitter {
	if callback == nil {
		return nil
	}
	return &lineSplitter{callback: callback}
}

func (s *lineSplitter) feed(p []byte) {
	if s == nil {
		return
	}
	for len(p) > 0 {
		end := bytes.IndexAny(p, "\n\r\b")
		part := p
		if end >= 0 {
			part = p[:end]
		}
		s.line = append(s.line, part[:min(len(part), maxLine-len(s.line))]...)
		if end < 0 {
			return
		}
		s.flush()
		p = p[end+1:]
	}
}

// flush reports a line that has no end yet.
func (s *lineSplitter) flush() {
	if s == nil || len(s.line) == 0 {
		return
	}
	s.callback(string(s.line))
	s.line = s.line[:0]
}

// all reports the lines of a text, including an unfinished last one.
func (s *lineSplitter) all(p []byte) {
	s.feed(p)
	s.flush()
}
