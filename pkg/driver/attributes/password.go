package attributes

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
)

// maxPassword bounds the file of a password.
const maxPassword = 1024

// openPassword opens the file of a password, which not everybody may read or change.
func openPassword(file string) (*os.File, error) {
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe without a writer is no reason to wait
	if err != nil {
		return nil, fmt.Errorf("read password: %w", err)
	}
	const others = 0o007
	info, err := f.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = fmt.Errorf("%s is no file", file)
	case info.Mode().Perm()&others != 0:
		err = fmt.Errorf("everybody may read or change %s (mode %04o): take that from them (chmod o= %s, or defaultMode 0400 of a volume)", file, info.Mode().Perm(), file)
	case info.Size() > maxPassword:
		err = fmt.Errorf("%s does not hold one line of at most %d bytes", file, maxPassword)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read password: %w", err), f.Close())
	}
	return f, nil
}

// readPassword reads the password, without the end of its line. Errors do not have it.
func readPassword(file string) (string, error) {
	f, err := openPassword(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxPassword+1))
	if err != nil {
		return "", fmt.Errorf("read password: %w", err)
	}
	password := strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
	if password == "" || len(text) > maxPassword || strings.ContainsAny(password, "\r\n\x00") {
		return "", fmt.Errorf("read password: %s does not hold one line of at most %d bytes", file, maxPassword)
	}
	return password, nil
}

// checkPassword returns why the file of a password cannot be read. It reads no password.
func checkPassword(file string) error {
	f, err := openPassword(file)
	if err != nil {
		return err
	}
	return f.Close()
}
