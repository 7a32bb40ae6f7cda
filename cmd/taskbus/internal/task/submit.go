package task

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"taskbus/cmd/taskbus/cli"
	"taskbus/coordinator/bus"
	"taskbus/messages"
	"taskbus/schemas"
)

type submitFlags struct {
	high, raw, validateOnly, wait bool
	from                          int
}

func SubmitCommand(a *cli.App) *cobra.Command {
	var flags submitFlags
	c := &cobra.Command{
		Use:   "submit FILE|-",
		Short: "Publish tasks, one JSON object per line",
		Long: `Publishes every line of FILE (or of standard input, "-") as one task, of priority 2
and 3 to the queue task.assign.high, the rest to task.assign: persistent, mandatory,
and counted only when RabbitMQ has confirmed it. No coordinator needs to run; the
tasks wait in the queues.

A line is a task.assign message, for example:

  {"message_type": "task.assign", "task_id": "t-1", "task_type": "translate",
   "payload": {"text": "guten Tag"}, "priority": 2}

Each line is validated before it is published; one that is not in order is
reported with its number and left out, the others are published all the same. To
publish all or nothing, run with --validate-only first. With --raw every line is
published as it is, to see how the coordinator deals with it.

Lines that were not confirmed may have arrived all the same. They are named, all of
them; to submit these again: sed -n '3,10p' FILE | taskbus submit -. Where a run ends
early (a signal, a lost connection), it says with which line to go on: --from-line.
A coordinator drops the second copy of a task_id while it remembers the first: those
of the last hour, 100,000 at most, unless agents.yaml says otherwise (dedupe). Beyond
that a whole file that is submitted again runs again.

With --wait the outcome of each task is printed as it comes: its id, how it ended, which
agent had it, and what that found out (its output) or what went wrong; with -o json the
message itself. The answers go to a queue that lasts as long as the run.

While the broker is short of memory or disk it takes nothing; that is waited for.
SIGTERM and SIGINT end the run with its summary, a second one at once.

Exit code 1 if any line was refused or not confirmed, or, with --wait, any task failed or
has no outcome. The broker's URL comes from
RABBITMQ_URL; an argument would show its password to every user of the machine.`,
		Example: `  taskbus submit examples/tasks.jsonl
  taskbus submit --validate-only examples/tasks.jsonl
  taskbus submit --wait examples/tasks.jsonl
  taskbus submit --from-line 120001 large.jsonl
  producer | taskbus submit --high -
  echo '{"broken' | taskbus submit --raw -`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if flags.raw && flags.validateOnly {
				return cli.UsageError("--raw and --validate-only exclude each other: raw lines are not validated")
			}
			if flags.wait && (flags.raw || flags.validateOnly) {
				return cli.UsageError("--wait goes with neither --raw nor --validate-only: what is not a task has no outcome")
			}
			if flags.from < 1 {
				return cli.UsageError("--from-line must be 1 or more")
			}
			return submit(c.Context(), a, args[0], flags)
		},
	}
	c.Flags().BoolVar(&flags.high, "high", false,
		"publish all of them to task.assign.high, which does not wait behind a backlog, whatever their priority")
	c.Flags().BoolVar(&flags.raw, "raw", false, "do not validate: publish every line as it is")
	c.Flags().BoolVar(&flags.validateOnly, "validate-only", false,
		"validate every line and publish nothing; needs no broker")
	c.Flags().BoolVar(&flags.wait, "wait", false,
		"wait until all tasks have ended, and print each one's outcome as it comes")
	c.Flags().IntVar(&flags.from, "from-line", 1, "pass over the lines before this one: to go on where a run has ended")
	return c
}

func submit(ctx context.Context, a *cli.App, path string, flags submitFlags) error {
	set, err := schemas.Compile()
	if err != nil {
		return err
	}
	input := a.In
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return fmt.Errorf("read the tasks: %w", err)
		}
		defer file.Close() // only read from: nothing can be lost by closing it
		input = file
	}
	job := &submission{
		raw: flags.raw, from: flags.from, now: a.Now,
		decoder:  messages.NewDecoder(set, messages.Limits{}),
		tally:    newTally(flags.from),
		progress: cli.Progress{W: a.Err, Doing: "submit", Rewrite: cli.Terminal(a.Err)},
	}
	if flags.high {
		job.queue = bus.QueueAssignHigh
	}
	if flags.wait {
		job.outcomes = newOutcomes(a, set)
	}
	start := a.Now()
	ctx, cancel := a.Stoppable(ctx)
	defer cancel()
	if flags.validateOnly {
		err = job.watched(ctx, input)
	} else {
		err = publish(ctx, a, job, input)
	}
	job.progress.End()
	summary := job.tally.final()
	if !flags.validateOnly {
		summary.Queue = job.published()
	}
	if flags.wait {
		var printErr error
		if summary.Outcomes, printErr = job.outcomes.summary(); printErr != nil {
			return printErr
		}
	}
	took := a.Now().Sub(start)
	if printErr := a.Show(summary, func(p *cli.Page) { printSubmission(p, a.Err, summary, took) }); printErr != nil {
		return printErr
	}
	switch {
	case err != nil && summary.NextLine > 0 && flags.validateOnly:
		return fmt.Errorf("%w; line %d and what follows was not looked at", err, summary.NextLine)
	case err != nil && summary.NextLine > 0:
		return fmt.Errorf("%w; line %d and what follows was not published, go on with --from-line %d", err,
			summary.NextLine, summary.NextLine)
	case err != nil:
		return err
	case summary.bad():
		return cli.ErrReported
	}
	return nil
}

// publish runs the job over a broker session of its own.
func publish(ctx context.Context, a *cli.App, job *submission, input io.Reader) error {
	env, err := a.Environment()
	if err != nil {
		return err
	}
	where := cli.BrokerAddress(env.RabbitMQURL)
	topology := bus.Topology{Mode: bus.Off}
	if job.outcomes != nil {
		job.outcomes.queue = fmt.Sprintf("answers.%s.%s", cli.BrokerUser(env.RabbitMQURL), rand.Text())
		topology.Queues = []bus.Queue{{Name: job.outcomes.queue, Temporary: true}}
	}
	session, err := a.OpenQuietBus(env).Open(ctx, bus.SessionSpec{
		Name:      cli.SessionName("submit"),
		Topology:  topology,
		OnSettled: job.settled,
		OnBlocked: func(blocked bool, reason string) {
			job.tally.hold(blocked)
			job.progress.Blocked(blocked, reason)
		},
	})
	if err != nil {
		return fmt.Errorf("connect to %s: %w; %s", where, err, a.BrokerAdvice())
	}
	job.where, job.session = where, session
	if o := job.outcomes; o != nil {
		o.ack = session.Ack
		err = session.Subscribe(ctx, bus.Subscription{Queue: o.queue, Prefetch: answersPrefetch, Handle: o.answered})
	}
	if err == nil {
		err = job.watched(ctx, input)
	}
	if err == nil {
		err = job.confirmed(ctx)
	}
	if err == nil && job.outcomes != nil {
		err = job.ended(ctx)
	}
	// What is on its way is waited for even after Ctrl-C; not for the end of an alarm.
	limit := confirmTimeout
	if job.tally.held() {
		limit = blockedTimeout
	} else if err != nil {
		limit = stopTimeout
	}
	closing, cancelClosing := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancelClosing()
	if closeErr := session.Close(closing); err == nil && closeErr != nil {
		err = fmt.Errorf("wait for the confirms of %s: %w", where, closeErr)
	}
	<-session.Done()
	return job.over(err)
}

const (
	// confirmTimeout bounds the wait for the next confirm, stopTimeout that for all of them after a
	// signal, blockedTimeout that for a broker that takes nothing.
	confirmTimeout = 30 * time.Second
	stopTimeout    = 5 * time.Second
	blockedTimeout = 100 * time.Millisecond
)

// printSubmission prints the summary, and to faults what was wrong with lines.
func printSubmission(p *cli.Page, faults io.Writer, s submissionSummary, took time.Duration) {
	for _, r := range s.Refused {
		fmt.Fprintf(faults, "line %d: %s\n", r.Line, cli.OneLine(r.Text))
	}
	for _, f := range s.Misspelt {
		fmt.Fprintf(faults, "line %d: warning: %s\n", f.Line, cli.OneLine(f.Text))
	}
	if n := s.MisspeltLines - len(s.Misspelt); n > 0 {
		fmt.Fprintf(faults, "… and %d more lines with such fields\n", n)
	}
	for _, f := range s.Unconfirmed {
		fmt.Fprintf(faults, "line %d: not confirmed: %s\n", f.Line, f.Text)
	}
	if n := s.RefusedLines - len(s.Refused) + s.UnconfirmedLines - len(s.Unconfirmed); n > 0 {
		fmt.Fprintf(faults, "… and %d more\n", n)
	}
	if len(s.UnconfirmedRanges) > 0 {
		fmt.Fprintf(faults, "not confirmed: %s\n", rangesText(s.UnconfirmedRanges))
	}
	text := fmt.Sprintf("%s, %d valid, %d refused", cli.Count(s.Lines, "line"), s.Valid, s.RefusedLines)
	if s.Queue != "" {
		text = fmt.Sprintf("%s, %d refused, %d confirmed in %s, %d not confirmed, in %.1f s",
			cli.Count(s.Lines, "line"), s.RefusedLines, s.Confirmed, s.Queue, s.UnconfirmedLines, took.Seconds())
	}
	p.Line("%s", text)
}
