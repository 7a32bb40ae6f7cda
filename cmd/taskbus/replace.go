package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// replaceable is where a file of that name goes, and its permissions: those of the file
// that is there, if it may be replaced. What a link leads to is replaced, not the link; a
// device such as /dev/stdout never is.
func replaceable(path string) (place string, mode fs.FileMode, err error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return path, 0o644, nil
	case err != nil:
		return "", 0, err
	case info.IsDir():
		return "", 0, fmt.Errorf("%s is a folder; name a file", path)
	case !info.Mode().IsRegular():
		return "", 0, fmt.Errorf("%s is no regular file; name another", path)
	}
	old, err := os.OpenFile(path, os.O_WRONLY, 0) // a file that is protected stays
	if err != nil {
		return "", 0, err
	}
	if err := old.Close(); err != nil {
		return "", 0, err
	}
	place, err = filepath.EvalSymlinks(path)
	return place, info.Mode().Perm(), err
}
