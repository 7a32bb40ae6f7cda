package journal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"taskbus/cmd/taskbus/cli"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/journal"
)

func exportCommand(a *cli.App) *cobra.Command {
	var all, sinceSnapshot, force bool
	c := &cobra.Command{
		Use:   "export FILE",
		Short: "Copy messages of the journal into a file, as a backup or for `taskbus replay`",
		Long: `Copies the messages of the journal as they are into a file: from the newest complete
snapshot on, which is all that a coordinator needs to take over (see "taskbus journal
import"), and all that "taskbus replay" needs of the term of the leader that wrote it;
with --all everything that the stream still has.

The file holds ids, labels and the reasons of cancels, and no payloads: they are
never in the journal. It appears under its name when it is complete; its format is
described in docs/reference/journal.md. Damaged messages are copied as they are.`,
		Example: `  taskbus journal export monday.tbj
  taskbus journal export --all everything.tbj
  taskbus replay monday.tbj
  taskbus journal import monday.tbj`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if all && sinceSnapshot {
				return cli.UsageError("--all and --since-snapshot exclude each other")
			}
			return exportTo(c.Context(), a, args[0], all, force)
		},
	}
	c.Flags().BoolVar(&all, "all", false, "everything that the stream has")
	c.Flags().BoolVar(&sinceSnapshot, "since-snapshot", false,
		"from the newest complete snapshot on (this is the default)")
	c.Flags().BoolVar(&force, "force", false, "replace the file if it exists")
	return c
}

// exported is what an export has.
type exported struct {
	File     string `json:"file"`
	Messages int    `json:"messages"`
	Bytes    int64  `json:"bytes"`
	First    int64  `json:"first_offset"`
	Last     int64  `json:"last_offset"`
}

func exportTo(ctx context.Context, a *cli.App, path string, all, force bool) error {
	if _, err := os.Lstat(path); err == nil && !force {
		return fmt.Errorf("%s exists; --force replaces it", path)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("write the export: %w", err)
	}
	place, _, err := cli.Replaceable(path)
	if err != nil {
		return fmt.Errorf("write the export: %w", err)
	}
	exported := exported{File: path, First: -1, Last: -1}
	err = withStream(ctx, a, func(ctx context.Context, s *stream) error {
		from, err := s.exportFrom(all)
		if err != nil {
			return err
		}
		return writeExport(ctx, a, s, from, place, &exported)
	})
	if err != nil {
		return err
	}
	return a.Show(exported, func(p *cli.Page) {
		p.Line("%s: %s, offsets %d to %d, %s", path, cli.Count(exported.Messages, "message"), exported.First,
			exported.Last, cli.Kilobytes(exported.Bytes))
	})
}

// exportFrom is where the newest complete snapshot begins, or everything.
func (s *stream) exportFrom(all bool) (bus.Position, error) {
	if all {
		return bus.First(), nil
	}
	h, err := journal.DecodeHeader(s.last.Body)
	if err != nil {
		return bus.Position{}, fmt.Errorf(
			"find the newest snapshot: the message at offset %d, the last: %w; --all exports everything as it is",
			s.last.Offset, err)
	}
	return journal.Start(h), nil
}

// writeExport writes beside the file and puts it into its place when it is complete.
func writeExport(ctx context.Context, a *cli.App, s *stream, from bus.Position, place string,
	exported *exported) (err error) {
	file, err := os.CreateTemp(filepath.Dir(place), "."+filepath.Base(place)+".*")
	if err != nil {
		return fmt.Errorf("write the export: %w", err)
	}
	defer func() {
		if err != nil {
			_ = file.Close() // closed already, perhaps
			_ = os.Remove(file.Name())
		}
	}()
	p := cli.Progress{W: a.Err, Doing: "exporting the journal", Rewrite: cli.Terminal(a.Err)}
	defer p.End()
	exported.Messages, err = journal.WriteExport(file, func(yield func(journal.Exported, error) bool) {
		for m, err := range s.messages(ctx, from) {
			if err == nil {
				if exported.First < 0 {
					exported.First = m.Offset
				}
				exported.Last = m.Offset
				exported.Bytes += int64(len(m.Body))
				p.Report(a.Now(), func() string {
					return fmt.Sprintf("%s, offset %d of %d", cli.Kilobytes(exported.Bytes), m.Offset, s.last.Offset)
				})
			}
			if !yield(m, err) {
				return
			}
		}
	})
	if err != nil {
		return err
	}
	if err := file.Sync(); err != nil {
		return fmt.Errorf("write the export: %w", err)
	}
	if err := file.Close(); err != nil {
		return fmt.Errorf("write the export: %w", err)
	}
	if err := os.Rename(file.Name(), place); err != nil {
		return fmt.Errorf("write the export: %w", err)
	}
	return nil
}
