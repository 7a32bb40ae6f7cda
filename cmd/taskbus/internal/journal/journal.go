package journal

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"taskbus/cmd/taskbus/cli"
	"taskbus/coordinator"
	"taskbus/coordinator/bus"
)

func Command(a *cli.App) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "journal",
		Short: "Look into the journal: what was decided, when and by which coordinator",
		Long: `Looks into the journal, copies it, or begins an empty one from a copy. The journal is
the stream coordinator.journal. The leader writes into it what has to survive it,
before it acts on that: which agent was given which task, how that ended, which agents
are trusted with what. A coordinator that takes over reads it.

ls, show and export read it beside a running coordinator and change nothing. They need
no more than the permission to read it; RABBITMQ_URL names the broker. import begins an
empty one with an export.`,
		Example: `  taskbus journal ls
  taskbus journal show task-0042
  taskbus journal export monday.tbj
  taskbus journal import monday.tbj`,
	}, listCommand(a), showCommand(a), exportCommand(a), importCommand(a),
		acknowledgeCommand(a))
}

// filter is what journal ls is asked for.
type filter struct {
	limit       int
	task, agent string
	since       time.Duration
	// call is set where task may be the id of a call's reservation, too.
	call *callKeys
}

const (
	defaultLimit = 50
	maxLimit     = 100_000
)

func listCommand(a *cli.App) *cobra.Command {
	var f filter
	c := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List what was journalled lately, the newest last",
		Long: `Lists what was journalled lately, the newest last, one line a record.

  OFFSET  of the message in the stream, for "taskbus journal show OFFSET"
  RECORD  its number; records are numbered from 1, across leaders
  TASK    its id; #… is the beginning of its key, where --since begins after its
          id was written down; of quota that of the reservation
  WHAT    "(3 of 6)": so many agents were eligible; "void: …": its writer did not
          lead any more

It reads everything since then, of which a busy coordinator writes some 20 MB a
minute. The records of snapshots repeat what is known, and are left out.`,
		Example: `  taskbus journal ls
  taskbus journal ls --task task-0042 --since 2h
  taskbus journal ls --agent gpu-1 --limit 200 -o json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if f.since <= 0 {
				return cli.UsageError("--since must be positive, like 10m, not %s", f.since)
			}
			for what, id := range map[string]string{"a task": f.task, "an agent": f.agent} {
				if id == "" {
					continue
				}
				if err := cli.CheckID(what, id); err != nil {
					return err
				}
			}
			return list(c.Context(), a, f)
		},
	}
	cli.LimitFlag(c, &f.limit, defaultLimit, maxLimit, "the newest so many, 1 to %d")
	c.Flags().StringVar(&f.task, "task", "", "only what is about this task")
	c.Flags().StringVar(&f.agent, "agent", "", "only what is about this agent")
	sinceFlag(c, &f.since, 10*time.Minute)
	return c
}

func sinceFlag(c *cobra.Command, into *time.Duration, unless time.Duration) {
	c.Flags().DurationVar(into, "since", unless, "how far to look back, like 10m or 24h")
}

func list(ctx context.Context, a *cli.App, f filter) error {
	lines, err := readLines(ctx, a, f)
	if err != nil {
		return err
	}
	return a.Show(struct {
		Lines []entry `json:"lines"`
	}{lines}, func(p *cli.Page) { printEntries(p, lines, f) })
}

// readLines reads the newest lines that the filter lets through.
func readLines(ctx context.Context, a *cli.App, f filter) ([]entry, error) {
	lines := []entry{} // not nil: an empty list in JSON
	err := withStream(ctx, a, func(ctx context.Context, s *stream) error {
		p := cli.Progress{W: a.Err, Doing: "reading the journal", Rewrite: cli.Terminal(a.Err)}
		defer p.End()
		t, read, since := newTeller(), 0, a.Now().Add(-f.since)
		for m, err := range s.messages(ctx, bus.Ago(f.since)) {
			if err != nil {
				return err
			}
			read++
			p.Report(a.Now(), func() string {
				return fmt.Sprintf("%s, offset %d of %d", cli.Count(read, "message"), m.Offset, s.last.Offset)
			})
			more, err := t.linesOf(m)
			if err != nil {
				return err
			}
			for _, l := range more {
				if f.passes(&l, since) {
					lines = append(lines, l)
				}
			}
			if len(lines) > 2*f.limit { // now and then
				lines = append(lines[:0], lines[len(lines)-f.limit:]...)
			}
		}
		return nil
	})
	return lines[max(0, len(lines)-f.limit):], err
}

// passes reports whether a line is asked for. The broker begins to read somewhat
// before the time that was asked for.
func (f *filter) passes(l *entry, since time.Time) bool {
	return (f.task == "" || l.Task == f.task || l.concerns(coordinator.KeyOf(coordinator.TaskID(f.task))) ||
		f.call.is(l)) &&
		(f.agent == "" || l.Agent == f.agent) &&
		(l.At.IsZero() || !l.At.Before(since))
}

// shortDuration is a duration as people write it: 10m, not 10m0s.
func shortDuration(d time.Duration) string {
	text := d.String()
	if minutes, ok := strings.CutSuffix(text, "m0s"); ok {
		text = minutes + "m"
	}
	if hours, ok := strings.CutSuffix(text, "h0m"); ok {
		text = hours + "h"
	}
	return text
}

func printEntries(p *cli.Page, lines []entry, f filter) {
	if len(lines) == 0 {
		p.Line("nothing of that kind was journalled in the last %s; --since looks further back", shortDuration(f.since))
		return
	}
	t := cli.NewTable("WHEN", "OFFSET", "RECORD", "TASK", "AGENT", "WHAT")
	for _, l := range lines {
		record, text := "", l.Text
		if l.Record > 0 {
			record = fmt.Sprint(l.Record)
		}
		if l.Void {
			text = "void: " + text
		}
		t.Row(p.Ago(l.At), l.Offset, record, l.task(), l.Agent, text)
	}
	p.Table(t)
	if len(lines) >= f.limit {
		p.Line("the newest %d; there may be more (--limit)", f.limit)
	}
}
