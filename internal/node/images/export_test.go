package images

import "syscall"

// Quota makes the file system of the store take n more bytes of images, and fail with err after that. It is for tests.
func (s *Store) Quota(n int64, err syscall.Errno) {
	open := s.open
	s.open = func(path string) (partial, error) {
		p, cause := open(path)
		return &limited{partial: p, left: &n, err: err}, cause
	}
}

// limited is a file on a file system that has little room.
type limited struct {
	partial

	left *int64
	err  error
}

func (l *limited) Write(p []byte) (int, error) {
	n := min(int64(len(p)), *l.left)
	written, err := l.partial.Write(p[:n])
	*l.left -= int64(written)
	if err == nil && written < len(p) {
		err = l.err
	}
	return written, err
}
