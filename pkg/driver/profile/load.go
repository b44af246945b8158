package profile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"syscall"
)

// LoadDir reads the profiles of a local directory. A missing directory has none.
func LoadDir(dir string) ([]Profile, error) {
	profiles, err := Load(os.DirFS(dir), dir)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
	}
	return profiles, err
}

// Load reads the files of a directory that end in .yaml or .yml, in order of their names. Any problem in any file is an
// error, which lists all problems. The directory's name is for messages.
func Load(files fs.FS, dir string) ([]Profile, error) {
	entries, err := fs.ReadDir(files, ".")
	if err != nil {
		return nil, fmt.Errorf("read profiles: %w", err)
	}
	var profiles []Profile
	var problems []error
	owner := map[string]string{}
	for _, entry := range entries {
		if ext := path.Ext(entry.Name()); ext != ".yaml" && ext != ".yml" {
			continue
		}
		file := filepath.Join(dir, entry.Name())
		p, err := loadFile(files, entry.Name(), file)
		switch {
		case err != nil:
			problems = append(problems, err)
		case owner[p.Name] != "":
			problems = append(problems, fmt.Errorf("%s: name: %q is already the name of %s", file, p.Name, owner[p.Name]))
		default:
			owner[p.Name] = file
			profiles = append(profiles, p)
		}
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	return profiles, nil
}

// writable are the permissions with which users other than the owner could decide what runs as root.
const writable = 0o022

// trusted reports whether a file belongs to root or to the user that runs this. Files that are in no file system of the
// machine have no owner.
func trusted(info fs.FileInfo) bool {
	owner, ok := info.Sys().(*syscall.Stat_t)
	return !ok || owner.Uid == 0 || int(owner.Uid) == os.Geteuid()
}

func loadFile(files fs.FS, name, file string) (Profile, error) {
	info, err := fs.Stat(files, name)
	switch {
	case err != nil:
		return Profile{}, fmt.Errorf("read profile: %w", err)
	case !info.Mode().IsRegular() || info.Size() > maxFile:
		return Profile{}, fmt.Errorf("%s: want a file of at most %d bytes", file, maxFile)
	case info.Mode()&writable != 0:
		return Profile{}, fmt.Errorf("%s: users other than its owner may write it: run chmod go-w on it", file)
	case !trusted(info):
		return Profile{}, fmt.Errorf("%s: it belongs to neither root nor this user, who could decide what runs as root: review it, then run chown root on it", file)
	}
	text, err := fs.ReadFile(files, name)
	if err != nil {
		return Profile{}, fmt.Errorf("read profile: %w", err)
	}
	return Parse(file, text)
}
