package sim

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"taskbus/cmd/taskbus/cli"
	"taskbus/coordinator/simulator/chart"
)

// chartFormat is the format that the name of a file asks for.
func chartFormat(file string) (chart.Format, error) {
	switch strings.ToLower(filepath.Ext(file)) {
	case ".svg":
		return chart.SVG, nil
	case ".png":
		return chart.PNG, nil
	}
	return "", cli.UsageError("--plot must name a file that ends in .svg or .png, not %q", file)
}

// chartFile is where a chart is going to be. It is opened beside that place before
// anything is simulated, so that what cannot be written is known at once; the chart
// that may be there stays until the new one is complete. nil: no chart is wanted.
type chartFile struct {
	path   string
	format chart.Format
	draft  *os.File
}

// newChartFile opens the draft of a chart; no path, no chart.
func newChartFile(path string) (*chartFile, error) {
	if path == "" {
		return nil, nil
	}
	format, err := chartFormat(path)
	if err != nil {
		return nil, err
	}
	path, mode, err := cli.Replaceable(path)
	if err != nil {
		return nil, fmt.Errorf("draw the chart: %w", err)
	}
	draft := filepath.Join(filepath.Dir(path), fmt.Sprintf(".%s.%d", filepath.Base(path), os.Getpid()))
	file, err := os.OpenFile(draft, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("draw the chart: there is no folder %s; create it, or name another by --plot",
			filepath.Dir(path))
	}
	if err != nil {
		return nil, fmt.Errorf("draw the chart: %w", err)
	}
	return &chartFile{path: path, format: format, draft: file}, nil
}

// write draws the chart and puts it in its place.
func (f *chartFile) write(draw func(io.Writer, chart.Format) error) error {
	if f == nil {
		return nil
	}
	err := draw(f.draft, f.format)
	if err == nil {
		err = f.draft.Close()
	}
	if err == nil {
		err = os.Rename(f.draft.Name(), f.path)
	}
	if err != nil {
		return fmt.Errorf("write the chart: %w", err)
	}
	return nil
}

// discard removes the draft of a chart that has not been written.
func (f *chartFile) discard() {
	if f == nil {
		return
	}
	// After write both are gone: there is nothing left to close or to remove.
	_ = f.draft.Close()
	_ = os.Remove(f.draft.Name())
}
