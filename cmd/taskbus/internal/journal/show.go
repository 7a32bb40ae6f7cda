package journal

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"taskbus/cmd/taskbus/cli"
	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/journal"
)

func showCommand(a *cli.App) *cobra.Command {
	var limit int
	var since time.Duration
	var agent string
	c := &cobra.Command{
		Use:   "show OFFSET|TASK|RESERVATION",
		Short: "Show everything in one message, or about one task or one call's quota",
		Long: `Shows the message of the journal at an offset, with its header and all fields of its
records; or, of a task, or of the quota that was reserved for a call (by its
reservation_id), every record that was written since then about it, with all fields.
An argument that is a number is an offset; of a task whose id is a number there is
"taskbus journal ls --task".

Each agent has reservation ids of its own: without --agent those of this id of all
agents are shown whose beginning was written since then. With --agent, which is the
agent whose call it is ("" for a gateway's that names none), also what was written of
one that began before.`,
		Example: `  taskbus journal show 128400
  taskbus journal show task-0042 --since 24h -o json
  taskbus journal show r-1 --agent gpu-1`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if since <= 0 {
				return cli.UsageError("--since must be positive, like 1h, not %s", since)
			}
			if offset, err := strconv.ParseInt(args[0], 10, 64); err == nil && offset >= 0 {
				return showMessage(c.Context(), a, offset, limit)
			}
			if err := cli.CheckID("a task", args[0]); err != nil {
				return err
			}
			calls := newCallKeys(args[0])
			if c.Flags().Changed("agent") {
				if agent != "" {
					if err := cli.CheckID("an agent", agent); err != nil {
						return err
					}
				}
				calls = callKeysOf(args[0], coordinator.AgentID(agent))
			}
			return showTask(c.Context(), a, args[0], calls, since, limit)
		},
	}
	cli.LimitFlag(c, &limit, 200, maxLimit,
		"at most so many records, 1 to %d: the first of a message, the newest of a task")
	c.Flags().StringVar(&agent, "agent", "", "the call of this agent")
	sinceFlag(c, &since, time.Hour)
	return c
}

func showMessage(ctx context.Context, a *cli.App, offset int64, limit int) error {
	var found journal.Exported
	var joiner journal.Joiner
	var whole []byte // of which the message is the first piece, if it is one
	err := withStream(ctx, a, func(ctx context.Context, s *stream) error {
		found.Offset = -1
		if offset > s.last.Offset {
			return fmt.Errorf("the journal ends at offset %d", s.last.Offset)
		}
		for m, err := range s.messages(ctx, bus.At(offset)) {
			if err != nil {
				return err
			}
			if found.Offset < 0 {
				found = m
			}
			if whole, err = joiner.Take(m.Body); err != nil || whole != nil || !joiner.Open() {
				break
			}
		}
		if found.Offset != offset {
			return fmt.Errorf("there is no message at offset %d (any more); the next one is at %d", offset,
				found.Offset)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if whole == nil { // damaged, or a piece behind the first: it is shown as it is
		whole = found.Body
	}
	m, err := journal.Decode(whole)
	if err != nil {
		return fmt.Errorf("read the message at offset %d: %w", offset, err)
	}
	found.Body = whole
	page := newMessage(found, m, limit)
	return a.Show(page, func(p *cli.Page) { printMessage(p, &page) })
}

func printMessage(p *cli.Page, j *message) {
	p.Line("offset %d: %s of epoch %d, %d bytes, format version %d", j.Offset, j.Kind, j.Epoch, j.Bytes, j.Version)
	p.Line("written %s", momentText(p, j.At))
	if l := j.Leader; l != nil {
		p.Line("leader: %s since %s", l.Instance, momentText(p, l.Since))
		p.Line("its address: %s, version: %s, nonce: %s", l.Address, l.Version, l.Nonce)
	}
	switch {
	case j.Snapshot != nil:
		last := ""
		if j.Snapshot.Last {
			last = ", the last"
		}
		p.Line("part %d%s, of snapshot %s: %s of the state before record %d", j.Snapshot.Number, last, j.Snapshot.Name,
			cli.Count(j.Count, "record"), j.First)
	case j.Piece != nil:
		p.Line("bytes %d and following of %d of a message (%s) that came in pieces; its first piece shows all of it",
			j.Piece.From, j.Piece.Size, j.Piece.Of)
	case j.Kind == journal.KindInputs.String():
		p.Line("%s for replay, from number %d of their recording on", cli.Count(j.Count, "input"), j.First)
	case j.Count > 0:
		p.Line("records %d to %d", j.First, j.First+uint64(j.Count)-1)
	default:
		p.Line("no records; the next one is %d", j.First)
	}
	p.Line("reading task.result goes on at %s; the newest complete snapshot begins at %s", offsetText(j.ResultOffset),
		offsetText(j.SnapshotOffset))
	for i := range j.Records {
		p.Blank()
		j.Records[i].print(p)
	}
	if n := j.Count - len(j.Records); n > 0 && len(j.Records) > 0 {
		p.Blank()
		p.Line("and %s more (--limit)", cli.Count(n, "record"))
	}
}

// momentText is a time for people: exactly, and how long ago.
func momentText(p *cli.Page, at time.Time) string {
	if at.IsZero() {
		return "never"
	}
	return fmt.Sprintf("%s (%s)", at.UTC().Format("2006-01-02 15:04:05.000 MST"), p.Ago(at))
}

func offsetText(offset int64) string {
	if offset < 0 {
		return "(not known)"
	}
	return strconv.FormatInt(offset, 10)
}

// showTask shows what there is about a task, or about calls, of this id.
func showTask(ctx context.Context, a *cli.App, id string, calls *callKeys, since time.Duration, limit int) error {
	lines, err := readLines(ctx, a, filter{limit: limit, task: id, call: calls, since: since})
	if err != nil {
		return err
	}
	records := make([]record, 0, len(lines))
	for _, l := range lines {
		h := journal.Header{Epoch: l.Epoch, At: l.At}
		records = append(records, newRecord(l.Offset, l.Record, h, l.Void, l.record))
	}
	return a.Show(struct {
		Task    string   `json:"task_id"`
		Key     string   `json:"task_key"`
		Records []record `json:"records"`
	}{id, keyText(coordinator.KeyOf(coordinator.TaskID(id))), records}, func(p *cli.Page) {
		if len(records) == 0 {
			p.Line("nothing about %s was journalled in the last %s; --since looks further back", id,
				shortDuration(since))
			p.Line("(the end of a call that began before is found by --agent)")
		}
		for i := range records {
			r := &records[i]
			if i > 0 {
				p.Blank()
			}
			p.Line("%s, offset %d, epoch %d: %s", momentText(p, r.At), r.Offset, r.Epoch,
				strings.TrimSpace(lines[i].Text))
			r.print(p)
		}
	})
}
