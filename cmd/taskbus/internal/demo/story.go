package demo

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"taskbus/messages"
)

// story prints what happens while it happens.
type story struct {
	mu  sync.Mutex
	out io.Writer
}

func newStory(out io.Writer) *story { return &story{out: out} }

func (s *story) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(s.out, "%s  %s\n", time.Now().Format("15:04:05.000"), fmt.Sprintf(format, args...))
}

// outcome prints one outcome in one line.
func (s *story) outcome(o outcome) {
	switch {
	case o.duplicate:
		s.say("%-26s dropped: a second copy of a known task", shown(o.task))
	case o.result == messages.Succeeded:
		// Its beginning was printed; the table shows its end.
	case o.agent != "":
		s.say("%-26s %s on %s: %s", shown(o.task), o.result, o.agent, short(o.text, 100))
	default:
		s.say("%-26s ✗ %s: %s", shown(o.task), o.reason, short(o.text, 100))
	}
}

// lookTime bounds what is asked of the coordinator once the demonstration was stopped.
const lookTime = 5 * time.Second

// summarise prints the tables; an error says that some lines have no outcome. If ctx has ended, the demonstration was
// stopped: the state of each unfinished task is printed.
func summarise(ctx context.Context, out io.Writer, p *process, l *ledger, lines int) error {
	stopped := ctx.Err() != nil
	if stopped {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), lookTime)
		defer cancel()
	}
	outcomes, surplus := l.all()
	var done, failed, dropped []outcome
	for _, o := range outcomes {
		switch {
		case o.agent != "":
			done = append(done, o)
		case o.duplicate:
			dropped = append(dropped, o)
		default:
			failed = append(failed, o)
		}
	}
	sort.Slice(done, func(i, j int) bool { return done[i].task < done[j].task })
	sort.Slice(failed, func(i, j int) bool { return failed[i].task < failed[j].task })

	tw := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "\nTASK\tPRIORITY\tAGENT\tSTRATEGY\tMS\tOUTCOME\tWORK MS\tTRACE ID")
	var chosen choices
	for _, o := range done {
		priority, strategy, ms := "?", "?", "?"
		if t, ok := p.task(ctx, string(o.task)); ok {
			priority, strategy, ms = fmt.Sprint(t.Priority), t.Strategy, fmt.Sprintf("%.1f", t.DurationMS)
			chosen.add(o.task, t)
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%.0f\t%s\n", shown(o.task), priority, o.agent, strategy, ms, o.result,
			o.workMS, o.traceID)
	}
	fmt.Fprintln(tw, "\nFAILED TASK\tREASON CODE\tTRACE ID\tIN WORDS")
	for _, o := range failed {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\n", shown(o.task), o.reason, o.traceID, short(o.text, 90))
	}
	chosen.print(tw)
	if err := tw.Flush(); err != nil {
		return fmt.Errorf("print the summary: %w", err)
	}
	open := l.open()
	rest := fmt.Sprintf("%d not accounted for", len(open)+len(surplus)+l.unnamed)
	if stopped {
		rest = fmt.Sprintf("stopped by you: %d had not ended", len(open))
	}
	fmt.Fprintf(out, "\n%d submitted: %d done by an agent, %d failed with a reason, %d dropped as second copies, %s\n",
		lines, len(done), len(failed), len(dropped), rest)
	if len(open)+len(surplus)+l.unnamed == 0 {
		return nil
	}
	for _, id := range open {
		where := ""
		if t, ok := p.task(ctx, string(id)); ok {
			where = strings.TrimSuffix(fmt.Sprintf(" (%s %s", t.State, t.Agent), " ") + ")"
		}
		fmt.Fprintf(out, "  no outcome: %s%s\n", shown(id), where)
	}
	for _, o := range surplus {
		fmt.Fprintf(out, "  once too often: %s (%s%s)\n", shown(o.task), o.agent, o.reason)
	}
	if l.unnamed > 0 {
		fmt.Fprintf(out, "  lines without a readable task_id, to be found in task.dead: %d\n", l.unnamed)
	}
	return ErrUnaccounted
}

// short cuts a text for one line of a terminal.
func short(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}

// shortPath shows a program as a person would type it.
func shortPath(path string) string {
	wd, err := os.Getwd()
	if err != nil {
		return path
	}
	if rel, err := filepath.Rel(wd, path); err == nil && !strings.HasPrefix(rel, "..") {
		return rel
	}
	return path
}
