package task

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"taskbus/cmd/taskbus/cli"
	"taskbus/coordinator"
	"taskbus/coordinator/httpapi"
	"taskbus/coordinator/view"
)

// deadHelp ends the help of every command about task.dead.
const deadHelp = `

KEY names one message: 16 hexadecimal digits, which "taskbus dead ls" shows. A task id
stands for all messages of that task. The commands ask the coordinator that leads; it
takes the messages in hand for a moment and gives back what it does not act on.` + cli.NeedsToken

func DeadCommand(a *cli.App) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "dead",
		Short: "Look at what could not be delivered, send it again, or drop it",
		Long: `Shows and empties the queue task.dead. There RabbitMQ keeps what could not be read
(invalid_message), tasks that failed on too many agents (poisoned), and what the broker
gave up itself (delivery_limit and others). Nothing else ever takes it out.` + deadHelp,
		Example: `  taskbus dead ls
  taskbus dead show task-0042
  taskbus dead resend --reason poisoned
  taskbus dead drop 3f2a09c1d4e5b678`,
	}, deadListCommand(a), deadShowCommand(a), deadActCommand(a, resendDead), deadActCommand(a, dropDead))
}

// deadFlags select messages.
func deadFlags(c *cobra.Command, f *view.DeadFilter) {
	c.Flags().StringVar(&f.Reason, "reason", "",
		"only those with this reason code, e.g. invalid_message, poisoned, delivery_limit")
	c.Flags().StringVar(&f.Type, "type", "", "only those of this task type or message type")
	c.Flags().StringVar(&f.ID, "id", "", "only those of this task id, message id or key")
	cli.CompleteFlag(c, "reason", cobra.FixedCompletions([]cobra.Completion{
		coordinator.ReasonInvalidMessage.String(), coordinator.ReasonPoisoned.String(), "delivery_limit", "expired",
		"maxlen", "rejected",
	}, cobra.ShellCompDirectiveNoFileComp))
}

// deadLetters asks what is in task.dead.
func deadLetters(ctx context.Context, c *cli.Client, f view.DeadFilter) (view.DeadList, error) {
	query := url.Values{"reason": {f.Reason}, "type": {f.Type}, "id": {f.ID}, "limit": {strconv.Itoa(f.Limit)}}
	var l view.DeadList
	err := c.Get(ctx, "/dead?"+query.Encode(), &l)
	return l, err
}

func deadListCommand(a *cli.App) *cobra.Command {
	f := view.DeadFilter{}
	c := &cobra.Command{
		Use:   "ls",
		Short: "List what is in task.dead, and why",
		Long: `Lists the messages of task.dead, in the order in which they lie there. Payloads are
not shown.

  KEY     names the message for show, resend and drop
  TASK    and TYPE as far as they can be read in it
  FROM    the queue in which it was before
  RESEND  the queue that resend publishes it to; "-": it cannot be sent again` + deadHelp,
		Example: `  taskbus dead ls
  taskbus dead ls --reason poisoned --limit 200
  taskbus dead ls --type translate -o json`,
		Args: cobra.NoArgs,
	}
	base := cli.URLFlag(c)
	deadFlags(c, &f)
	cli.LimitFlag(c, &f.Limit, httpapi.DefaultDeadLimit, httpapi.MaxDeadLimit, "at most this many, 1 to %d")
	c.RunE = func(c *cobra.Command, _ []string) error {
		client, err := a.NewAdminClient(*base)
		if err != nil {
			return err
		}
		found, err := deadLetters(c.Context(), client, f)
		if err != nil {
			return err
		}
		return a.Show(found, func(p *cli.Page) { deadTable(p, found) })
	}
	return c
}

// deadTable prints a list.
func deadTable(p *cli.Page, l view.DeadList) {
	if l.Matched == 0 {
		if l.Scanned == 0 {
			p.Line("nothing is in task.dead")
		} else {
			p.Line("none of the %s in task.dead is selected", cli.Count(l.Scanned, "message"))
		}
		return
	}
	t := cli.NewTable("KEY", "REASON", "TASK", "TYPE", "FROM", "RESEND", "SIZE", "WHY")
	for i := range l.Messages {
		m := &l.Messages[i]
		t.Row(m.Key, m.ReasonCode, m.TaskID, m.TaskType, m.SourceQueue, m.ResendTo, m.Bytes, m.Reason)
	}
	p.Table(t)
	if n := l.Matched - len(l.Messages); n > 0 {
		p.Line("%d more (--limit)", n)
	}
	if l.More {
		p.Line("only the first %d messages of task.dead were looked at; the others show when these are gone", l.Scanned)
	}
}

func deadShowCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "show KEY|TASK",
		Short: "Show one message of task.dead and why it is there",
		Long: `Shows what is known of one message. Its body, which has the payload, is shown only with
--payload: alone and as it is, so that it can go into a file, be corrected, and be
published again with "taskbus submit".` + deadHelp,
		Example: `  taskbus dead show 3f2a09c1d4e5b678
  taskbus dead show task-0042 --payload > task.json`,
		Args: cobra.ExactArgs(1),
	}
	base := cli.URLFlag(c)
	payload := c.Flags().Bool("payload", false, "show the whole message, which may hold what is secret")
	c.RunE = func(c *cobra.Command, args []string) error {
		client, err := a.NewAdminClient(*base)
		if err != nil {
			return err
		}
		key := args[0]
		if !httpapi.ValidDeadKey(key) {
			if key, err = onlyDead(c.Context(), a, client, key); err != nil {
				return err
			}
		}
		var m view.DeadMessage
		if err := client.Get(c.Context(), "/dead/"+key+"?payload="+strconv.FormatBool(*payload), &m); err != nil {
			return err
		}
		return a.Show(m, func(p *cli.Page) { printDead(p, &m, *payload) })
	}
	return c
}

// onlyDead is the key of the one message that has this id.
func onlyDead(ctx context.Context, a *cli.App, c *cli.Client, id string) (string, error) {
	found, err := deadLetters(ctx, c, view.DeadFilter{ID: id, Limit: httpapi.DefaultDeadLimit})
	switch {
	case err != nil:
		return "", err
	case len(found.Messages) == 0:
		return "", fmt.Errorf("nothing of %q is in task.dead; `taskbus dead ls` lists what is", cli.OneLine(id))
	case found.Matched > 1:
		keys := make([]string, len(found.Messages))
		for i := range found.Messages {
			keys[i] = found.Messages[i].Key
		}
		return "", fmt.Errorf("%d messages of %q are in task.dead; name one by its key: %s", found.Matched,
			cli.OneLine(id), cli.List(keys, 10))
	}
	return found.Messages[0].Key, nil
}

func printDead(p *cli.Page, m *view.DeadMessage, payload bool) {
	if payload {
		body := []byte(m.Body)
		if m.Base64 {
			var err error
			if body, err = base64.StdEncoding.DecodeString(m.Body); err != nil {
				p.Fail(fmt.Errorf("decode the message: %w", err))
			}
		}
		fmt.Fprintf(p, "%s\n", body)
		return
	}
	for _, f := range [...]struct{ name, value string }{
		{"key", m.Key},
		{"reason", strings.TrimPrefix(m.ReasonCode+": "+m.Reason, ": ")},
		{"from", m.SourceQueue},
		{"message type", m.MessageType},
		{"task", m.TaskID},
		{"task type", m.TaskType},
		{"correlation id", m.CorrelationID},
		{"message id", m.MessageID},
		{"app id", m.AppID},
		{"reply to", m.ReplyTo},
		{"size", cli.Count(m.Bytes, "byte")},
		{"resend", m.ResendTo + m.ResendNot},
	} {
		if f.value != "" {
			p.Line("%-15s %s", f.name, f.value)
		}
	}
	if !m.Timestamp.IsZero() {
		p.Line("%-15s %s", "time", m.Timestamp.UTC().Format(time.RFC3339))
	}
}

// deadAct is what can be done to dead messages.
type deadAct struct {
	verb, path, done, short, long string
}

var (
	resendDead = deadAct{"resend", "/dead/resend", "sent again", "Publish messages of task.dead again",
		`Publishes messages again, each to the queue that "taskbus dead ls" shows for it, and
takes them out of task.dead once RabbitMQ has confirmed that: nothing is lost, and
whatever breaks in between leaves a copy at most. A poisoned task has all its tries
again. What cannot be read will fail again unless what was wrong is not any more:
correct it with show --payload and "taskbus submit" instead.`}
	dropDead = deadAct{"drop", "/dead/drop", "dropped", "Take messages out of task.dead for good",
		`Takes messages out of task.dead. They are gone then.`}
)

func deadActCommand(a *cli.App, act deadAct) *cobra.Command {
	f := view.DeadFilter{Limit: httpapi.MaxDeadLimit}
	c := &cobra.Command{
		Use:   act.verb + " [KEY|TASK...]",
		Short: act.short,
		Long: act.long + `

Which: those of the arguments, or all that --reason, --type and --id select, or --all.
More than one message is asked about first, unless --yes is given.` + deadHelp,
		Example: fmt.Sprintf(`  taskbus dead %[1]s 3f2a09c1d4e5b678
  taskbus dead %[1]s task-0042
  taskbus dead %[1]s --reason poisoned --type translate
  taskbus dead %[1]s --all --yes`, act.verb),
	}
	base := cli.URLFlag(c)
	deadFlags(c, &f)
	all := c.Flags().Bool("all", false, "all of them")
	yes := c.Flags().Bool("yes", false, "do not ask first")
	c.RunE = func(c *cobra.Command, args []string) error {
		filtered := f.Reason != "" || f.Type != "" || f.ID != ""
		switch {
		case len(args) > 0 && (filtered || *all):
			return cli.UsageError("name messages, or select them with --reason, --type, --id or --all, not both")
		case len(args) == 0 && !filtered && !*all:
			return cli.UsageError("say which: keys or task ids, --reason, --type, --id, or --all")
		}
		client, err := a.NewAdminClient(*base)
		if err != nil {
			return err
		}
		return actOnDead(c.Context(), a, client, act, f, args, *yes)
	}
	return c
}

// actOnDead does it in steps of as many messages as the coordinator lists at a time, until nothing is left that it
// could be done to.
func actOnDead(ctx context.Context, a *cli.App, client *cli.Client, act deadAct, f view.DeadFilter, args []string,
	yes bool) error {
	total := view.DeadDone{Done: []string{}, Kept: []view.DeadKept{}}
	asked, tried := yes, make(map[string]bool)
	for {
		found, matched, err := deadOf(ctx, client, f, args)
		if err != nil {
			return err
		}
		var keys []string
		for i := range found {
			if key := found[i].Key; !tried[key] {
				tried[key] = true
				keys = append(keys, key)
			}
		}
		if len(keys) == 0 {
			break
		}
		if !asked && matched > 1 {
			if err := a.Agreed(whatFor(act, matched, found)); err != nil {
				return err
			}
		}
		asked = true
		var done view.DeadDone
		if err := client.Change(ctx, http.MethodPost, act.path, map[string]any{"keys": keys}, &done); err != nil {
			return err
		}
		total.Done, total.Kept = append(total.Done, done.Done...), append(total.Kept, done.Kept...)
		if matched <= len(found) {
			break
		}
	}
	err := a.Show(total, func(p *cli.Page) {
		p.Line("%s %s", cli.Count(len(total.Done), "message"), act.done)
		for _, k := range total.Kept {
			p.Line("%s stays in task.dead: %s", k.Key, k.Why)
		}
	})
	if err != nil || len(total.Kept) == 0 {
		return err
	}
	return cli.ErrReported
}

// deadOf lists the messages that are meant.
func deadOf(ctx context.Context, c *cli.Client, f view.DeadFilter, args []string) (found []view.DeadMessage,
	matched int, err error) {
	if len(args) == 0 {
		l, err := deadLetters(ctx, c, f)
		return l.Messages, l.Matched, err
	}
	for _, id := range args {
		l, err := deadLetters(ctx, c, view.DeadFilter{ID: id, Limit: httpapi.MaxDeadLimit})
		if err != nil {
			return nil, 0, err
		}
		if l.Matched == 0 {
			return nil, 0, fmt.Errorf("nothing of %q is in task.dead; `taskbus dead ls` lists what is. Nothing "+
				"was done", cli.OneLine(id))
		}
		found, matched = append(found, l.Messages...), matched+l.Matched
	}
	return found, matched, nil
}

// whatFor says what is about to be done to so many.
func whatFor(act deadAct, n int, found []view.DeadMessage) string {
	text := act.verb + " " + cli.Count(n, "message")
	if code := found[0].ReasonCode; !slices.ContainsFunc(found,
		func(m view.DeadMessage) bool { return m.ReasonCode != code }) {
		text += " (" + code + ")"
	}
	return text
}
