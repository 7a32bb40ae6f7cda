package journal

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"os"
	"time"

	"github.com/spf13/cobra"

	"taskbus/cmd/taskbus/cli"
	"taskbus/config"
	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/journal"
	"taskbus/coordinator/usage"
	"taskbus/coordinator/usage/store"
)

// historyOpens is how long opening the history of usage, or writing to it, may take.
const historyOpens = 30 * time.Second

func importCommand(a *cli.App) *cobra.Command {
	var place string
	c := &cobra.Command{
		Use:   "import FILE",
		Short: "Begin an empty journal with an export",
		Long: `Writes the messages of an export (taskbus journal export) into an empty journal, so
that the coordinator that starts next knows what the one that was exported knew:
budgets, orders, what was learnt, which task is with which agent. It is for a journal
that was lost and for another broker; docs/howto/backup.md has both step by step.

It refuses where the journal is not empty, where a coordinator leads, and what is no
whole export, before anything is written. The stream is made if it is missing.

The history of usage (TASKBUS_HISTORY, else the file that is the default for this
broker, if there is one; --history names another, or is "off") is brought along: it
goes on with the new journal, and nothing is counted twice or left out.`,
		Example: `  taskbus journal import monday.tbj
  RABBITMQ_URL=amqp://guest:guest@localhost:5672/ taskbus journal import monday.tbj
  taskbus journal import monday.tbj --history /var/lib/taskbus/history.db`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return importFrom(c.Context(), a, args[0], place) },
	}
	c.Flags().StringVar(&place, "history", "",
		`the history of usage that is to go on with it: a file, the URL of a PostgreSQL database, or "off"`)
	return c
}

// imported is what came of an import.
type imported struct {
	File     string `json:"file"`
	Messages int    `json:"messages"`
	Bytes    int64  `json:"bytes"`
	// Records that have been numbered by then, over all leaders.
	Records uint64 `json:"records"`
	// History that goes on with it, empty: none does, and Note says why.
	History string `json:"history,omitempty"`
	Note    string `json:"note,omitempty"`
}

func importFrom(ctx context.Context, a *cli.App, path, place string) error {
	env, err := a.Environment()
	if err != nil {
		return err
	}
	made, err := checkImport(path)
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	ctx, cancel := a.Stoppable(ctx)
	defer cancel()
	past, err := openHistory(ctx, a, env, place)
	if err != nil {
		return err
	}
	defer past.close()
	where := cli.BrokerAddress(env.RabbitMQURL)
	p := publishing{settled: make(chan bus.Outcome, bus.WindowApart)}
	session, err := a.OpenQuietBus(env).Open(ctx, bus.SessionSpec{
		Name: cli.SessionName("journal"), Topology: streamAlone(),
		OnSettled: func(_ uint64, o bus.Outcome) { p.settled <- o },
	})
	if err != nil {
		return fmt.Errorf("connect to %s: %w; check RABBITMQ_URL and that the broker runs", where, err)
	}
	defer func() {
		cancel()
		_ = session.Close(ctx)
	}()
	p.session = session
	if err := fillJournal(ctx, a, &p, path, past); err != nil {
		return fmt.Errorf("import %s at %s: %w", path, where, err)
	}
	if made.History, made.Note, err = past.moved(ctx); err != nil {
		return fmt.Errorf(
			"the journal is imported, and the history of usage is not moved: %w; `taskbus quota history` says later "+
				"what became of it", err)
	}
	return a.Show(made, func(p *cli.Page) {
		p.Line("%s: %s, %s, written to %s at %s; %s numbered so far", path, cli.Count(made.Messages, "message"),
			cli.Kilobytes(made.Bytes), bus.StreamJournal, where, cli.Count(int(made.Records), "record"))
		if made.History == "" {
			p.Line("the history of usage: %s", made.Note)
		} else {
			p.Line("the history of usage in %s goes on with it", made.History)
		}
	})
}

// streamAlone is the stream, declared where it is missing.
func streamAlone() bus.Topology {
	t := bus.Topology{Mode: bus.Declare}
	for _, q := range bus.Standard(bus.Declare, bus.ProfileQuorum, nil).Queues {
		if q.Name == bus.StreamJournal {
			t.Queues = append(t.Queues, q)
		}
	}
	return t
}

// exportOf gives the messages of the export in a file.
func exportOf(path string) iter.Seq2[journal.Exported, error] {
	return func(yield func(journal.Exported, error) bool) {
		file, err := os.Open(path)
		if err != nil {
			yield(journal.Exported{}, err)
			return
		}
		defer file.Close()
		journal.ReadExport(file)(yield)
	}
}

// checkImport reads an export as a coordinator would that starts from it, so that one from which none could is
// refused before anything is written.
func checkImport(path string) (imported, error) {
	made := imported{File: path}
	mover := journal.NewMover(true)
	for e, err := range exportOf(path) {
		if err != nil {
			return made, err
		}
		moved, err := mover.Take(e)
		if err != nil {
			return made, err
		}
		for _, body := range moved {
			made.Messages, made.Bytes = made.Messages+1, made.Bytes+int64(len(body))
		}
	}
	_, err := mover.End(time.Time{}, "check", "")
	made.Records = mover.Reader().Next() - 1
	return made, err
}

// publishing is a session that writes the journal. Its user keeps at most WindowApart unsettled.
type publishing struct {
	session bus.Session
	settled chan bus.Outcome
	open    int
}

// publish writes messages, and waits for the answers to those before where too many are on their way.
func (p *publishing) publish(ctx context.Context, at time.Time, messages ...[]byte) error {
	for _, body := range messages {
		for p.open >= bus.WindowApart {
			if err := p.await(ctx); err != nil {
				return err
			}
		}
		err := p.session.Publish(bus.Publication{
			Token: 1, Key: bus.StreamJournal, Apart: true, Body: body,
			Properties: bus.Properties{ContentType: "application/octet-stream", Type: bus.StreamJournal,
				AppID: "taskbus", Timestamp: at},
		})
		if err != nil {
			return fmt.Errorf("write a message: %w", err)
		}
		p.open++
	}
	return nil
}

// await waits for one answer.
func (p *publishing) await(ctx context.Context) error {
	select {
	case o := <-p.settled:
		if p.open--; o != bus.Confirmed {
			return fmt.Errorf("the broker has not taken a message (%s)", o)
		}
		return nil
	case <-p.session.Done():
		return errors.Join(bus.ErrClosed, p.session.Err())
	case <-ctx.Done():
		return ctx.Err()
	}
}

var errLed = errors.New("a coordinator leads there: stop all of them first, standbys too")

// fillJournal writes the export while it holds the lock, so that no coordinator leads.
func fillJournal(ctx context.Context, a *cli.App, p *publishing, path string, past *movingHistory) error {
	locking, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	if err := p.session.TakeLock(locking, bus.QueueLeader, func() { stop(errLed) }); err != nil {
		if errors.Is(context.Cause(locking), errLed) {
			return errLed
		}
		return err
	}
	s := &stream{session: p.session}
	switch err := s.findEnd(ctx); {
	case err == nil:
		return fmt.Errorf(
			"the journal is not empty (it ends at offset %d): nothing was written. An import is for one that was "+
				"lost, or another broker; "+
				"to do away with the one that is there: rabbitmqctl delete_queue %s", s.last.Offset, bus.StreamJournal)
	case !errors.Is(err, errEmpty):
		return err
	}
	results, err := p.session.Depth(ctx, bus.StreamResult)
	if err != nil && !errors.Is(err, bus.ErrNoQueue) {
		return fmt.Errorf("look at %s: %w", bus.StreamResult, err)
	}
	mover := journal.NewMover(err == nil && results.Ready > 0) // of another broker's results it says nothing
	if err := moveMessages(ctx, a, p, mover, path, past); err != nil {
		return fmt.Errorf("%w; what was written of it is no journal: `rabbitmqctl delete_queue %s`, then import again",
			err, bus.StreamJournal)
	}
	if err := s.findEnd(ctx); err != nil {
		return err
	}
	if want := mover.Next() - 1; s.last.Offset != want {
		return fmt.Errorf(
			"the journal ends at offset %d instead of %d: it was not empty, or something else writes to it; "+
				"`rabbitmqctl delete_queue %s`, then import again", s.last.Offset, want, bus.StreamJournal)
	}
	return nil
}

// moveMessages publishes the messages of an export, and waits until the broker has them.
func moveMessages(ctx context.Context, a *cli.App, p *publishing, mover *journal.Mover, path string,
	past *movingHistory) error {
	for e, err := range exportOf(path) {
		if err != nil {
			return err
		}
		moved, err := mover.Take(e)
		if err != nil {
			return err
		}
		if err := p.publish(ctx, a.Now(), moved...); err != nil {
			return err
		}
		if err := past.take(e, moved, mover); err != nil {
			return err
		}
	}
	counted, err := past.counted(ctx, mover)
	if err != nil {
		return err
	}
	if err := p.publish(ctx, a.Now(), counted...); err != nil {
		return err
	}
	end, err := mover.End(a.Now(), rand.Text(), a.Version)
	if err != nil {
		return err
	}
	past.end(end, mover)
	if err := p.publish(ctx, a.Now(), end); err != nil {
		return err
	}
	for p.open > 0 {
		if err := p.await(ctx); err != nil {
			return err
		}
	}
	return nil
}

// movingHistory is the history of usage while the journal that it follows is moved. A nil store: there is none.
type movingHistory struct {
	store *store.Store
	note  string // why there is none
	mark  usage.Mark
	to    *usage.Mark // where it goes on
	first int64       // offset of the export; -1: none has come
	// export is what a history would make of the messages, for which reservations are open behind them.
	export *usage.Projection
}

// openHistory opens the history that there is.
func openHistory(ctx context.Context, a *cli.App, env config.Environment, place string) (*movingHistory, error) {
	if place == "" {
		place = env.History.Reveal()
	}
	if place == "" {
		if place = cli.HistoryFile(a.Getenv, env); place != "" {
			if _, err := os.Stat(place); err != nil {
				place = "" // opening it would make it
			}
		}
	}
	m := &movingHistory{first: -1, export: usage.New(usage.State{Mark: usage.NoMark()}, nil)}
	switch {
	case place == config.HistoryOff:
		m.note = "none is brought along, as asked for"
		return m, nil
	case place == "":
		m.note = "none is found here; if there is one elsewhere, --history names it"
		return m, nil
	case store.Postgres(place):
		if err := store.CheckURL(place); err != nil {
			return nil, cli.UsageError("--history %s", err)
		}
	default:
		if _, err := os.Stat(place); err != nil {
			return nil, fmt.Errorf("the history of usage: %w; `--history off` goes without", err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, historyOpens)
	defer cancel()
	var err error
	if m.store, err = store.Open(ctx, place); err != nil {
		return nil, fmt.Errorf("%w; `--history off` goes without", err)
	}
	if m.mark, err = m.store.Mark(ctx); err != nil {
		m.close()
		return nil, err
	}
	return m, nil
}

func (m *movingHistory) close() {
	if m.store != nil {
		_ = m.store.Close() // every change in it was committed
	}
}

// take looks whether a message is the one up to which the history is. The mover has given moved for it just now.
func (m *movingHistory) take(e journal.Exported, moved [][]byte, mover *journal.Mover) error {
	if m.first < 0 {
		m.first = e.Offset
	}
	if m.store == nil || m.to != nil {
		return nil
	}
	for i, body := range moved {
		if err := m.export.Take(mover.Next()-int64(len(moved)-i), body); err != nil {
			return err
		}
	}
	if e.Offset != m.mark.Offset || m.mark.Other(e.Offset, e.Body) || len(moved) == 0 {
		return nil
	}
	again, ok := mover.Offset(m.mark.Again.Offset)
	if !ok {
		again = mover.Next()
	}
	to := m.mark.Moved(mover.Next()-1, moved[len(moved)-1], again)
	m.to = &to
	return nil
}

// further reports whether the history was further on than the export.
func (m *movingHistory) further(r *journal.Reader) bool {
	return m.store != nil && m.to == nil && !m.mark.At.Before(r.LastAt())
}

// counted returns messages that release what is reserved in the export for dispatches and calls of which a history
// that was further on has the end: what they have used is in the history, by which the leader corrects the budgets,
// and their results, which it reads once more, must not be charged again.
func (m *movingHistory) counted(ctx context.Context, mover *journal.Mover) ([][]byte, error) {
	if !m.further(mover.Reader()) {
		return nil, nil
	}
	state, err := m.store.State(ctx)
	if err != nil {
		return nil, err
	}
	open := make(map[coordinator.TaskKey]bool, len(state.Open))
	for i := range state.Open {
		open[state.Open[i].ID] = true
	}
	at := mover.Reader().LastAt()
	var released []coordinator.Record
	for _, key := range m.export.Open() {
		if !open[key] {
			released = append(released, &coordinator.QuotaEnded{Key: key, How: coordinator.QuotaReleased, At: at})
		}
	}
	if len(released) == 0 {
		return nil, nil
	}
	return mover.Append(at, released)
}

// end has a history that was further on than an older export go on behind it: all that is in the export is in the
// history.
func (m *movingHistory) end(body []byte, mover *journal.Mover) {
	r := mover.Reader()
	if !m.further(r) {
		return
	}
	to := m.mark.Behind(r, mover.Next()-1, body)
	m.to = &to
}

// moved has the history go on with the journal that was written: its place, or why it does not.
func (m *movingHistory) moved(ctx context.Context) (place, note string, err error) {
	switch {
	case m.store == nil:
		return "", m.note, nil
	case m.mark.Offset < 0:
		return "", m.store.Name() + " has followed no journal yet", nil
	case m.to == nil:
		return "",
			fmt.Sprintf(
				"%s is at offset %d, which is not in the export (it begins at %d) or is another journal's; it stays "+
					"as it is. If it was behind, "+
					"delete what was imported, and export with --all", m.store.Name(), m.mark.Offset, m.first), nil
	}
	ctx, cancel := context.WithTimeout(ctx, historyOpens)
	defer cancel()
	return m.store.Name(), "", m.store.Apply(ctx, &usage.Batch{From: m.mark, To: *m.to})
}
