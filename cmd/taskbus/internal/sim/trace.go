package sim

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"taskbus/coordinator/simulator"
)

// defaultTraces is where recorded workloads are looked for.
const defaultTraces = "../shared/traces"

// traceFolder reads traces from a folder, or from wherever a file with a path is.
func traceFolder(folder string) func(string) ([]simulator.Request, error) {
	return func(name string) ([]simulator.Request, error) {
		path := simulator.TraceFile(name)
		if filepath.Base(path) == path {
			path = filepath.Join(folder, path)
		}
		return readTrace(path, maxTraceBytes)
	}
}

// maxTraceBytes is the size of the largest trace: some six million requests.
const maxTraceBytes = 256 << 20

// readTrace reads a trace that is a file and no larger than most. What is no file,
// such as a pipe, might never end, or never begin.
func readTrace(path string, most int64) ([]simulator.Request, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s does not exist; --traces names the folder that holds it", path)
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, fmt.Errorf("%s is a folder; name the file in it, and the folder by --traces", path)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is a pipe or a device; write what comes from it into a file first", path)
	case info.Size() > most:
		return nil, fmt.Errorf("%s has %d MiB, and %d are the most; take a part of it", path, info.Size()>>20, most>>20)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return simulator.ReadTrace(io.LimitReader(file, most))
}
