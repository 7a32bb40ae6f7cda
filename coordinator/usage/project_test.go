package usage

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator"
	"taskbus/coordinator/journal"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// book is a journal that is being written, with what it must come to.
type book struct {
	epoch, next uint64
	at          time.Time
	messages    [][]byte
}

func newBook() *book {
	b := &book{next: 1, at: noon}
	b.lead()
	return b
}

func (b *book) header() journal.Header {
	b.at = b.at.Add(time.Second)
	return journal.Header{Epoch: b.epoch, First: b.next, At: b.at, ResultOffset: -1, SnapshotOffset: -1}
}

func (b *book) lead() {
	b.epoch++
	b.messages = append(b.messages, journal.AppendEpoch(nil, b.header(), journal.Epoch{Nonce: fmt.Sprint("n", b.epoch)}))
}

func (b *book) write(records ...coordinator.Record) {
	h := b.header()
	b.next += uint64(len(records))
	b.messages = append(b.messages, journal.AppendBatch(nil, h, records))
}

// snapshot writes one of these records, in two parts.
func (b *book) snapshot(records ...coordinator.Record) {
	h := b.header()
	name := fmt.Sprint("s", len(b.messages))
	for i := range 2 {
		var some []coordinator.Record
		if i == 1 {
			some = records
		}
		b.messages = append(b.messages,
			journal.AppendSnapshot(nil, h, journal.Chunk{Snapshot: name, Number: i, Last: i == 1,
				Leader: journal.Epoch{Nonce: "n"}}, some))
	}
}

func key(n int) coordinator.TaskKey { return coordinator.TaskKey{uint64(n), 7} }

func reserved(n int, at time.Time, group, agent string) *coordinator.QuotaReserved {
	return &coordinator.QuotaReserved{Key: key(n), Group: group, Agent: coordinator.AgentID(agent), Provider: "openai",
		Model: "gpt-4o", At: at}
}

func settled(n int, at time.Time, input, output int64) *coordinator.QuotaEnded {
	return &coordinator.QuotaEnded{Key: key(n), At: at, How: coordinator.QuotaSettled, Used: coordinator.Amounts{
		coordinator.DimRequests: 1, coordinator.DimInputTokens: input, coordinator.DimOutputTokens: output,
		coordinator.DimTotalTokens: input + output, coordinator.DimCost: 3 * input,
	}}
}

// late says whose it was that is settled after it has expired.
func late(e *coordinator.QuotaEnded, r *coordinator.QuotaReserved) *coordinator.QuotaEnded {
	e.Late = &coordinator.QuotaOwner{Group: r.Group, Agent: r.Agent, Provider: r.Provider, Model: r.Model, Call: r.Call,
		At: r.At}
	return e
}

func ended(n int, at time.Time, how coordinator.QuotaEnd) *coordinator.QuotaEnded {
	return &coordinator.QuotaEnded{Key: key(n), At: at, How: how}
}

// take gives messages from one on to a projection.
func take(t interface {
	Helper()
	Fatal(...any)
}, p *Projection, messages [][]byte, from int) {
	t.Helper()
	for i, m := range messages[from:] {
		if err := p.Take(int64(from+i), m); err != nil {
			t.Fatal(err)
		}
	}
}

// rowsOf is what a whole journal comes to, and the batch.
func rowsOf(t *testing.T, b *book, from int) ([]Row, Batch) {
	t.Helper()
	p := New(State{Mark: NoMark()}, nil)
	take(t, p, b.messages, from)
	batch, ok := p.Batch()
	if !ok {
		t.Fatal("there is no batch")
	}
	return batch.Rows, batch
}

func expectRows(t *testing.T, got []Row, want ...Row) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("\n got %+v\nwant %+v", got, want)
	}
}

func mine(group, agent, source string, c Counts) Row {
	return Row{Key{Day: "2026-11-22", Group: group, Agent: agent, Provider: "openai", Model: "gpt-4o", Source: source}, c}
}

func TestEndsAreCounted(t *testing.T) {
	b := newBook()
	call := reserved(4, noon, "g", "a")
	call.Call = true
	b.write(reserved(1, noon, "g", "a"), reserved(2, noon, "g", "a"), reserved(3, noon, "g", "b"), call,
		reserved(5, noon, "g", "b"))
	b.write(settled(1, noon, 100, 20), ended(2, noon, coordinator.QuotaReleased), ended(3, noon, coordinator.QuotaExpired),
		settled(4, noon, 7, 0))
	// 3 had expired: its agent tells yet. 5 is open.
	b.write(late(settled(3, noon.Add(time.Hour), 50, 5), reserved(3, noon, "g", "b")))
	rows, batch := rowsOf(t, b, 0)
	expectRows(t, rows,
		mine("g", "a", SourceCall, Counts{Requests: 1, InputTokens: 7, TotalTokens: 7, Cost: 21, Settled: 1}),
		mine("g", "a", SourceTask, Counts{Requests: 1, InputTokens: 100, OutputTokens: 20, TotalTokens: 120, Cost: 300,
			Settled: 1, Released: 1}),
		mine("g", "b", SourceTask, Counts{Requests: 1, InputTokens: 50, OutputTokens: 5, TotalTokens: 55, Cost: 150,
			Settled: 1, Expired: 1, Late: 1}))
	// 5 is open for seconds: it is read again, from the message at offset 1, the first behind epoch
	// 1, with which record 1 begins.
	if len(batch.Put) != 0 || batch.To.Again != (From{Offset: 1, Epoch: 1, Next: 1}) {
		t.Errorf("stored are %+v, and it is begun again at %+v", batch.Put, batch.To.Again)
	}
	if m := batch.To; !m.Since.Equal(noon.Add(time.Second)) || m.Offset != 3 || m.Next != 11 || m.Epoch != 1 {
		t.Errorf("the mark is %+v", m)
	}
}

// What a record says has no row of its own by its name stands with others, also if it is told late.
func TestOthersHaveOneRow(t *testing.T) {
	b := newBook()
	call := func(n int, provider, model string, known coordinator.NameKept) *coordinator.QuotaReserved {
		r := reserved(n, noon, "g", "a")
		r.Call, r.Provider, r.Model, r.Known = true, provider, model, known
		return r
	}
	told := call(4, "p9", "m9", coordinator.NoNameKept)
	b.write(call(1, "openai", "known", coordinator.NamesKept), call(2, "openai", "m1", coordinator.ProviderKept),
		call(3, "openai", "m2", coordinator.ProviderKept), told)
	b.write(settled(1, noon, 1, 0), settled(2, noon, 10, 0), settled(3, noon, 20, 0),
		ended(4, noon, coordinator.QuotaExpired))
	e := late(settled(4, noon, 100, 0), told)
	e.Late.Known = told.Known
	b.write(e)
	rows, _ := rowsOf(t, b, 0)
	row := func(provider, model string, c Counts) Row {
		c.TotalTokens, c.Cost = c.InputTokens, 3*c.InputTokens
		return Row{Key{Day: "2026-11-22", Group: "g", Agent: "a", Provider: provider, Model: model, Source: SourceCall}, c}
	}
	expectRows(t, rows,
		row("(others)", "(others)", Counts{Requests: 1, InputTokens: 100, Settled: 1, Expired: 1, Late: 1}),
		row("openai", "(others)", Counts{Requests: 2, InputTokens: 30, Settled: 2}),
		row("openai", "known", Counts{Requests: 1, InputTokens: 1, Settled: 1}))
}

// A task without a group counts for the one that was charged for it.
func TestPayerHasTheRow(t *testing.T) {
	b := newBook()
	paid := reserved(1, noon, "", "a")
	paid.Payer = "g"
	b.write(paid, reserved(2, noon, "", "b"), settled(1, noon, 5, 0), settled(2, noon, 7, 0))
	rows, _ := rowsOf(t, b, 0)
	row := func(group, agent string, in int64) Row {
		return Row{Key{Day: "2026-11-22", Group: group, Agent: agent, Provider: "openai", Model: "gpt-4o",
			Source: SourceTask}, Counts{Requests: 1, InputTokens: in, TotalTokens: in, Cost: 3 * in, Settled: 1}}
	}
	expectRows(t, rows, row("", "b", 7), row("g", "a", 5))
}

// A call counts for the day on which its quota was set aside, where the quotas say the day begins.
func TestDaysAreThoseOfTheTimeZone(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	b := newBook()
	late := time.Date(2026, 11, 22, 22, 59, 59, 0, time.UTC) // 23:59:59 in Berlin
	b.write(reserved(1, late, "g", "a"), reserved(2, late.Add(time.Second), "g", "a"))
	b.write(settled(1, late.Add(time.Hour), 1, 0), settled(2, late.Add(time.Hour), 10, 0))
	p := New(State{Mark: NoMark()}, berlin)
	take(t, p, b.messages, 0)
	batch, _ := p.Batch()
	if r := batch.Rows; len(r) != 2 || r[0].Day != "2026-11-22" || r[0].InputTokens != 1 || r[1].Day != "2026-11-23" ||
		r[1].InputTokens != 10 {
		t.Errorf("got %+v", r)
	}
}

// The journal has forgotten its beginning: what is not known is told as such, and what a snapshot
// knows to be open is known.
func TestBeginsAtASnapshot(t *testing.T) {
	b := newBook()
	b.write(reserved(1, noon, "g", "a"), reserved(2, noon, "g", "a"), reserved(3, noon, "g", "a"))
	b.write(settled(1, noon, 100, 0)) // forgotten with the first messages
	begins := len(b.messages)
	open, expired := reserved(2, noon, "g", "a"), reserved(3, noon, "g", "a")
	open.Before, expired.Before, expired.State, expired.Until = true, true, 1, noon.Add(time.Hour)
	more := reserved(2, noon, "g", "a") // what was reserved besides comes as another part
	more.Before = true
	b.snapshot(open, more, expired)
	b.write(settled(2, noon, 30, 0), late(settled(3, noon, 4, 0), expired), settled(9, noon, 5000, 0))
	rows, batch := rowsOf(t, b, begins)
	expectRows(t, rows,
		Row{Key{Day: "2026-11-22"}, Counts{Requests: 1, InputTokens: 5000, TotalTokens: 5000, Cost: 15000, Settled: 1}},
		mine("g", "a", SourceTask, Counts{Requests: 2, InputTokens: 34, TotalTokens: 34, Cost: 102, Settled: 2, Late: 1}))
	if want := b.at.Add(-time.Second); !batch.To.Since.Equal(want) {
		t.Errorf("since %s, want that of the snapshot, %s", batch.To.Since, want)
	}
}

// What comes twice, and what a leader writes that is none any more, counts for nothing.
func TestTwiceAndVoid(t *testing.T) {
	b := newBook()
	b.write(reserved(1, noon, "g", "a"))
	b.messages = append(b.messages, b.messages[1])
	b.write(settled(1, noon, 10, 0))
	b.messages = append(b.messages, b.messages[3])
	old := *b
	old.messages = nil
	b.lead()
	old.write(reserved(2, noon, "g", "a"), settled(2, noon, 999, 0)) // by the leader before
	b.messages = append(b.messages, old.messages...)
	rows, _ := rowsOf(t, b, 0)
	expectRows(t, rows, mine("g", "a", SourceTask, Counts{Requests: 1, InputTokens: 10, TotalTokens: 10, Cost: 30,
		Settled: 1}))
}

// Retention was faster than the history: there is a gap, which is told, and what was open before
// it and is not behind it is lost, not kept for ever.
func TestGap(t *testing.T) {
	b := newBook()
	b.write(reserved(1, noon, "g", "a"), reserved(2, noon, "g", "a"), reserved(3, noon, "g", "a"), settled(3, noon, 1, 0))
	p := New(State{Mark: NoMark()}, nil)
	take(t, p, b.messages, 0)
	first, _ := p.Batch()
	before, kept := b.at, len(b.messages)
	b.write(settled(1, noon, 50, 0)) // this is what is missing
	for _, c := range []struct {
		name string
		lead func() // what comes before the snapshot behind the gap
	}{
		{"a snapshot shows it", func() {}},
		{"a batch shows it", func() { b.write(settled(7, noon, 70, 0)) }},
		{"a new leader shows it", b.lead},
	} {
		t.Run(c.name, func(t *testing.T) {
			from := len(b.messages)
			c.lead()
			open := reserved(2, noon, "g", "a")
			open.Before = true
			b.snapshot(open)
			begins := b.at
			b.write(settled(2, noon, 8, 0), settled(4, noon, 9, 0)) // the reservation of 4 is not known
			p := New(State{Mark: first.To, Open: first.Put}, nil)
			take(t, p, b.messages[:kept], 0)
			take(t, p, b.messages, from)
			batch, ok := p.Batch()
			if !ok {
				t.Fatal("there is no batch")
			}
			expectRows(t, batch.Rows,
				Row{Key{Day: "2026-11-22"}, Counts{Requests: 1, InputTokens: 9, TotalTokens: 9, Cost: 27, Settled: 1}},
				mine("g", "a", SourceTask, Counts{Requests: 1, InputTokens: 8, TotalTokens: 8, Cost: 24, Settled: 1}))
			if g := batch.Gaps; len(g) != 1 || g[0].Lost != 1 || !g[0].From.Equal(before) || !g[0].To.Equal(begins) {
				t.Errorf("the gaps are %+v, want one from %s to %s in which 1 was lost", g, before, begins)
			}
			if !batch.To.Since.Equal(first.To.Since) {
				t.Errorf("since %s, want %s: what was before the gap stays", batch.To.Since, first.To.Since)
			}
		})
	}
}

// A message that is damaged is passed over, and told; what comes behind it counts.
func TestDamaged(t *testing.T) {
	b := newBook()
	b.write(reserved(1, noon, "g", "a"), reserved(2, noon, "g", "a"))
	b.write(settled(1, noon, 10, 0))
	b.messages[2] = append([]byte(nil), b.messages[2]...)
	b.messages[2][12] ^= 1
	b.write(settled(2, noon, 5, 0))
	for name, cut := range map[string]bool{"in one go": false, "stopped behind it": true} {
		t.Run(name, func(t *testing.T) {
			p := New(State{Mark: NoMark()}, nil)
			take(t, p, b.messages[:3], 0)
			s := sheet{}
			from := 3
			if cut {
				p = s.next(t, p)
				from = int(s.mark.Start())
			}
			take(t, p, b.messages, from)
			s.next(t, p)
			expectRows(t, s.rows(), mine("g", "a", SourceTask, Counts{Requests: 1, InputTokens: 5, TotalTokens: 5, Cost: 15,
				Settled: 1}))
			if len(s.gaps) != 1 || !strings.Contains(s.gaps[0].Reason, "offset 2 of the journal is damaged") {
				t.Errorf("the gaps are %+v", s.gaps)
			}
		})
	}
}

// Another journal is not taken for the one that was followed.
func TestAnotherJournal(t *testing.T) {
	b, other := newBook(), newBook()
	b.write(reserved(1, noon, "g", "a"))
	other.write(reserved(2, noon, "g", "a"))
	p := New(State{Mark: NoMark()}, nil)
	take(t, p, b.messages, 0)
	if err := p.Take(1, other.messages[1]); !errors.Is(err, ErrOtherJournal) {
		t.Errorf("another message at the offset of the mark gives %v", err)
	}
	if err := p.Take(1, b.messages[1]); err != nil {
		t.Errorf("the same message again gives %v", err)
	}

	// The one that was followed had come to epoch 2 and record 3; that at the offset of the mark is
	// gone, or never was.
	b.lead()
	b.write(settled(1, noon, 1, 0))
	take(t, p, b.messages, 2)
	batch, _ := p.Batch()
	other.write(settled(2, noon, 5, 0))
	leads := newBook()
	leads.epoch = 6
	leads.lead()
	leads.write(reserved(3, noon, "g", "a"))
	for name, message := range map[string][]byte{"an epoch of before": other.messages[2],
		"records of before": leads.messages[2]} {
		p := New(State{Mark: batch.To, Open: batch.Put}, nil)
		if err := p.Take(9, message); !errors.Is(err, ErrOtherJournal) {
			t.Errorf("%s behind the mark gives %v", name, err)
		}
	}
	// What is void behind the mark itself is void, as ever.
	p = New(State{Mark: batch.To, Open: batch.Put}, nil)
	take(t, p, b.messages, 3)
	if err := p.Take(9, other.messages[2]); err != nil {
		t.Errorf("a void message gives %v", err)
	}
}

// Whatever names the journal has, they are fit for a database.
func TestWords(t *testing.T) {
	for in, want := range map[string]string{
		"a":                      "a",
		"a\x00b":                 "a\uFFFDb", // PostgreSQL has no such text
		"\xff":                   "\uFFFD",
		strings.Repeat("x", 300): strings.Repeat("x", longest),
	} {
		if got := word(in); got != want {
			t.Errorf("%q gives %q, want %q", in, got, want)
		}
	}
	if got := word("a" + strings.Repeat("ä", 200)); len(got) != longest-1 { // 1 + 127 · 2: no half letter
		t.Errorf("%d bytes", len(got))
	}
}

// sheet is a store in memory.
type sheet struct {
	mark   Mark
	counts map[Key]*Counts
	open   map[coordinator.TaskKey]Reservation
	gaps   []Gap
}

// next applies what a projection has, if it has, and gives one that goes on from there as after
// a restart.
func (s *sheet) next(t interface {
	Helper()
	Fatalf(string, ...any)
}, p *Projection) *Projection {
	t.Helper()
	if s.counts == nil {
		s.mark, s.counts, s.open = NoMark(), map[Key]*Counts{}, map[coordinator.TaskKey]Reservation{}
	}
	if b, ok := p.Batch(); ok {
		s.apply(t, &b)
	}
	return New(State{Mark: s.mark, Open: s.list()}, nil)
}

func (s *sheet) apply(t interface {
	Helper()
	Fatalf(string, ...any)
}, b *Batch) {
	t.Helper()
	if b.From != s.mark {
		t.Fatalf("a batch begins at %+v, and the rows are at %+v", b.From, s.mark)
	}
	for _, r := range b.Rows {
		if s.counts[r.Key] == nil {
			s.counts[r.Key] = new(Counts)
		}
		s.counts[r.Key].Add(&r.Counts)
	}
	for _, id := range b.Drop {
		delete(s.open, id)
	}
	for _, r := range b.Put {
		s.open[r.ID] = r
	}
	s.mark, s.gaps = b.To, append(s.gaps, b.Gaps...)
}

// rows are those that are not of nothing.
func (s *sheet) rows() []Row {
	rows := []Row{}
	for _, r := range sorted(s.counts) {
		if !r.Zero() {
			rows = append(rows, r)
		}
	}
	return rows
}

// Wherever a follower is stopped, or the journal is cut into batches, the rows are those that
// reading it in one go gives; messages may come twice, leaders change, and be stopped in the
// middle of a snapshot. And all that was settled is in them, to the token.
func TestFollowingIsReadingInOneGo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, total := drawBook(t)
		one := &sheet{}
		first := New(State{Mark: NoMark()}, nil)
		take(t, first, b.messages, 0)
		one.next(t, first)

		many := &sheet{}
		p := many.next(t, New(State{Mark: NoMark()}, nil))
		for i := 0; i < len(b.messages); i++ {
			if err := p.Take(int64(i), b.messages[i]); err != nil {
				t.Fatal(err)
			}
			switch rapid.IntRange(0, 5).Draw(t, "then") {
			case 0: // it is written, and goes on
				if batch, ok := p.Batch(); ok {
					many.apply(t, &batch)
				}
			case 1: // it is written, and stopped
				p = many.next(t, p)
				i = int(many.mark.Start()) - 1
			case 2: // it is killed before it is written
				p = many.next(t, New(State{Mark: many.mark, Open: many.list()}, nil))
				i = int(many.mark.Start()) - 1
			}
		}
		many.next(t, p)
		if got, want := many.rows(), one.rows(); !reflect.DeepEqual(got, want) {
			t.Fatalf("\nfollowed %+v\nin one go %+v", got, want)
		}
		// When they were stored may differ; what is open does not.
		if got, want := openOf(p), openOf(first); !reflect.DeepEqual(got, want) {
			t.Fatalf("open %+v, in one go %+v", got, want)
		}
		many.mark.Again, one.mark.Again = From{}, From{}
		if many.mark != one.mark {
			t.Fatalf("at %+v, in one go at %+v", many.mark, one.mark)
		}
		sum := Counts{}
		for _, r := range one.rows() {
			sum.Add(&r.Counts)
		}
		if sum != total {
			t.Fatalf("in all %+v, and %+v was told", sum, total)
		}
	})
}

func openOf(p *Projection) map[coordinator.TaskKey]Key {
	open := make(map[coordinator.TaskKey]Key)
	for id, h := range p.known {
		open[id] = *h.key
	}
	return open
}

func (s *sheet) list() (open []Reservation) {
	for _, r := range s.open {
		open = append(open, r)
	}
	return open
}

// drawBook draws a journal, and what was told in it.
func drawBook(t *rapid.T) (*book, Counts) {
	b, total := newBook(), Counts{}
	state := map[int]int{} // 0 open, 1 expired
	ids, made := []int{}, 0
	held := map[int]*coordinator.QuotaReserved{}
	for range rapid.IntRange(1, 40).Draw(t, "messages") {
		b.at = b.at.Add(time.Duration(rapid.IntRange(0, 40).Draw(t, "seconds")) * time.Second)
		switch rapid.IntRange(0, 9).Draw(t, "kind") {
		case 0:
			b.lead()
		case 1: // once more
			b.messages = append(b.messages, b.messages[rapid.IntRange(0, len(b.messages)-1).Draw(t, "again")])
		case 2: // a snapshot, perhaps without its end
			var open []coordinator.Record
			for _, n := range ids {
				r := *held[n]
				r.Before, r.State = true, uint8(state[n])
				open = append(open, &r)
			}
			b.snapshot(open...)
			if rapid.Bool().Draw(t, "cut") {
				b.messages = b.messages[:len(b.messages)-1]
			}
		default:
			var records []coordinator.Record
			for range rapid.IntRange(1, 4).Draw(t, "records") {
				i := rapid.IntRange(-1, len(ids)-1).Draw(t, "which")
				if i < 0 {
					made++
					r := reserved(made, b.at.Add(time.Duration(rapid.IntRange(-48, 0).Draw(t, "hours"))*time.Hour),
						rapid.SampledFrom([]string{"g", "h"}).Draw(t, "group"), "a")
					ids, held[made] = append(ids, made), r
					records = append(records, r)
					continue
				}
				n := ids[i]
				switch how := coordinator.QuotaEnd(rapid.IntRange(0, 2).Draw(t, "how")); {
				case how == coordinator.QuotaSettled:
					e := settled(n, b.at, int64(rapid.IntRange(0, 1000).Draw(t, "input")), 3)
					e.Keep = state[n] == 1
					records = append(records, e)
					total.use(&e.Used)
					total.Settled++
					if state[n] == 1 {
						late(e, held[n])
						total.Late++
					}
					ids = append(ids[:i], ids[i+1:]...)
				case state[n] == 1: // it is told once only
				case how == coordinator.QuotaReleased:
					records = append(records, ended(n, b.at, how))
					total.Released++
					ids = append(ids[:i], ids[i+1:]...)
				default:
					records = append(records, ended(n, b.at, how))
					total.Expired++
					state[n] = 1
				}
			}
			b.write(records...)
		}
	}
	return b, total
}

// What is open for less than a minute is in no batch: it is read again.
func TestStoredIsWhatIsOpenForLong(t *testing.T) {
	// offset 0 at noon + 1 s
	b := newBook()
	// offset 1 at + 2 s
	b.write(reserved(1, noon, "g", "a"), settled(1, noon, 1, 0), reserved(2, noon, "g", "a"), reserved(3, noon, "g", "a"))
	// offset 2 at + 3 s
	b.write(settled(3, noon, 1, 0), reserved(4, noon, "g", "a"))
	p := New(State{Mark: NoMark()}, nil)
	s := sheet{}
	write := func(put, drop []coordinator.TaskKey, again From) {
		t.Helper()
		batch, ok := p.Batch()
		if !ok {
			t.Fatal("there is no batch")
		}
		var ids []coordinator.TaskKey
		for _, r := range batch.Put {
			ids = append(ids, r.ID)
		}
		if !reflect.DeepEqual(ids, put) || !reflect.DeepEqual(batch.Drop, drop) || batch.To.Again != again {
			t.Errorf("it puts %v, drops %v and begins again at %+v; want %v, %v, %+v", ids, batch.Drop, batch.To.Again, put,
				drop, again)
		}
		s.open, s.mark, s.counts = map[coordinator.TaskKey]Reservation{}, batch.From, map[Key]*Counts{}
		s.apply(t, &batch)
	}
	take(t, p, b.messages, 0)
	write(nil, nil, From{Offset: 1, Epoch: 1, Next: 1}) // for the sake of 2
	b.at = noon.Add(61 * time.Second)
	b.write(reserved(5, noon, "g", "a")) // offset 3 at + 62 s, a minute behind offset 1
	take(t, p, b.messages, 3)
	write([]coordinator.TaskKey{key(2)}, nil, From{Offset: 2, Epoch: 1, Next: 5}) // for the sake of 4
	b.write(settled(4, noon, 1, 0), settled(5, noon, 1, 0))                       // offset 4
	take(t, p, b.messages, 4)
	write(nil, nil, From{Offset: 5, Epoch: 1, Next: 10})
	b.write(settled(2, noon, 1, 0))
	take(t, p, b.messages, 5)
	write(nil, []coordinator.TaskKey{key(2)}, From{Offset: 6, Epoch: 1, Next: 11})
	if _, ok := p.Batch(); ok {
		t.Error("there is a batch of nothing")
	}
}

// Taking the whole journal before drawing a batch remembers what is open, and nothing of
// each message: a second each; what is reserved ends three minutes later.
func TestWithoutBatchesMemoryIsOfWhatIsOpen(t *testing.T) {
	const open = 180
	b, p, taken := newBook(), New(State{Mark: NoMark()}, nil), 0
	for n := range 5000 {
		at := b.at.Add(time.Second)
		records := []coordinator.Record{reserved(n, at, "g", "a")}
		if n >= open {
			records = append(records, settled(n-open, at, 1, 0))
		}
		b.write(records...)
		take(t, p, b.messages, taken)
		taken = len(b.messages)
		// A minute's messages are kept to be read again; of two minutes the reservations are to be stored.
		if len(p.messages) > 61 || len(p.changed) > open-60+1 || len(p.known) > open+1 {
			t.Fatalf("after %d messages it keeps %d of them, %d reservations that have changed, and %d that are open", n,
				len(p.messages), len(p.changed), len(p.known))
		}
	}
	batch, _ := p.Batch()
	if len(batch.Put) < open-62 || len(batch.Drop) > 0 {
		t.Errorf("it puts %d and drops %d", len(batch.Put), len(batch.Drop))
	}
}

// A snapshot behind a gap says that one has expired in it.
func TestExpiredInAGap(t *testing.T) {
	b := newBook()
	b.write(reserved(1, noon, "g", "a"))
	p := New(State{Mark: NoMark()}, nil)
	take(t, p, b.messages, 0)
	p.Batch()
	b.write(ended(1, noon, coordinator.QuotaExpired)) // this is what is missing
	from := len(b.messages)
	expired := reserved(1, noon, "g", "a")
	expired.Before, expired.State = true, 1
	b.snapshot(expired)
	b.write(late(settled(1, noon, 8, 0), expired))
	take(t, p, b.messages, from)
	batch, _ := p.Batch()
	expectRows(t, batch.Rows, mine("g", "a", SourceTask, Counts{Requests: 1, InputTokens: 8, TotalTokens: 8, Cost: 24,
		Settled: 1, Expired: 1, Late: 1}))
	if len(batch.Gaps) != 1 || batch.Gaps[0].Lost != 0 {
		t.Errorf("the gaps are %+v", batch.Gaps)
	}
}
