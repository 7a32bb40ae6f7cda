package cli

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Terminal reports whether a stream is a terminal. /dev/null, a character device too, is none.
func Terminal(stream any) bool {
	f, ok := stream.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	nothing, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, nothing)
}

// Replaceable is where a file of that name goes, and its permissions: those of the file
// that is there, if it may be replaced. What a link leads to is replaced, not the link; a
// device such as /dev/stdout never is.
func Replaceable(path string) (place string, mode fs.FileMode, err error) {
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

func ReadAuthorities(path string) (*x509.CertPool, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, errors.New(path + " has no certificate as PEM")
	}
	return pool, nil
}

// ReadInput reads the whole file, or standard input for "-"; tooLong says what is wrong with more
// than so many bytes.
func (a *App) ReadInput(what, path string, most int, tooLong string) ([]byte, error) {
	input := a.In
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", what, err)
		}
		defer file.Close() // only read from: nothing can be lost by closing it
		input = file
	}
	body, err := io.ReadAll(io.LimitReader(input, int64(most)+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", what, err)
	case len(body) > most:
		return nil, fmt.Errorf("read %s: "+tooLong, what, most)
	}
	return body, nil
}
