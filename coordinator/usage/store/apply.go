package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"taskbus/coordinator/usage"
)

// counts are the columns of usage.Counts, in the order of its Fields.
var counts = []string{"requests", "input_tokens", "output_tokens", "total_tokens", "cost_micro", "settled", "released",
	"expired", "late"}

// Apply makes the changes of a batch, all of them or none. ErrMoved: the rows are not at the
// mark at which it begins.
func (s *Store) Apply(ctx context.Context, b *usage.Batch) error {
	err := s.within(ctx, func(tx *sql.Tx) error {
		if err := s.move(ctx, tx, b.From, b.To); err != nil {
			return err
		}
		return s.change(ctx, tx, b)
	})
	if err != nil && !errors.Is(err, ErrMoved) {
		return s.wrong("write to the history", err)
	}
	return err
}

// move puts the mark from where it must be to where it is to be.
func (s *Store) move(ctx context.Context, tx *sql.Tx, from, to usage.Mark) error {
	doubts := 0
	if to.Again.Doubts {
		doubts = 1
	}
	r, err := tx.ExecContext(ctx, s.text(
		`UPDATE usage_mark SET journal_offset = $1, checksum = $2, epoch = $3, next_record = $4,
		again_offset = $5, again_epoch = $6, again_next = $7, again_doubts = $8, since_ns = $9, at_ns = $10, generation = $11
		WHERE journal_offset = $12 AND generation = $13 AND checksum = $14`),
		to.Offset, int64(to.Check), int64(to.Epoch), int64(to.Next), to.Again.Offset, int64(to.Again.Epoch),
		int64(to.Again.Next), doubts,
		nsOf(to.Since), nsOf(to.At), to.Generation, from.Offset, from.Generation, int64(from.Check))
	if err != nil {
		return err
	}
	n, err := r.RowsAffected()
	if err == nil && n != 1 {
		err = ErrMoved
	}
	return err
}

func (s *Store) change(ctx context.Context, tx *sql.Tx, b *usage.Batch) error {
	if err := s.addRows(ctx, tx, b.Rows); err != nil {
		return err
	}
	put := make([][]any, len(b.Put))
	for i := range b.Put {
		r := &b.Put[i]
		put[i] = []any{idOf(r.ID), r.Day, r.Group, r.Agent, r.Provider, r.Model, r.Source}
	}
	err := s.insert(ctx, tx, "INSERT INTO usage_open (id, day, group_id, agent_id, provider, model, source)",
		`ON CONFLICT (id) DO UPDATE SET day = excluded.day, group_id = excluded.group_id, agent_id = excluded.agent_id,
		provider = excluded.provider, model = excluded.model, source = excluded.source`, put)
	if err != nil {
		return err
	}
	for drop := b.Drop; len(drop) > 0; {
		some := drop[:min(chunk, len(drop))]
		drop = drop[len(some):]
		ids := make([]any, len(some))
		marks := make([]string, len(some))
		for i, k := range some {
			ids[i], marks[i] = idOf(k), fmt.Sprintf("$%d", i+1)
		}
		if _, err := tx.ExecContext(ctx, s.text("DELETE FROM usage_open WHERE id IN ("+strings.Join(marks, ", ")+")"),
			ids...); err != nil {
			return err
		}
	}
	gaps := make([][]any, len(b.Gaps))
	for i, g := range b.Gaps {
		gaps[i] = []any{nsOf(g.From), nsOf(g.To), g.Offset, g.Lost, g.Reason}
	}
	return s.insert(ctx, tx, "INSERT INTO usage_gaps (from_ns, to_ns, journal_offset, lost, reason)", "", gaps)
}

// dropGaps takes out the gaps that are reported anew, or all of them: what is before a day that was made
// anew may be missing still.
func (s *Store) dropGaps(ctx context.Context, tx *sql.Tx, anew []usage.Gap, all bool) error {
	if all {
		_, err := tx.ExecContext(ctx, "DELETE FROM usage_gaps")
		return err
	}
	for _, g := range anew {
		if _, err := tx.ExecContext(ctx, s.text("DELETE FROM usage_gaps WHERE journal_offset = $1 AND reason = $2"), g.Offset,
			g.Reason); err != nil {
			return err
		}
	}
	return nil
}

// addRows adds to the rows that are there. A count ends at usage.Most.
func (s *Store) addRows(ctx context.Context, tx *sql.Tx, rows []usage.Row) error {
	values := make([][]any, len(rows))
	for i := range rows {
		r := &rows[i]
		values[i] = []any{r.Day, r.Group, r.Agent, r.Provider, r.Model, r.Source}
		for _, v := range r.Fields() {
			values[i] = append(values[i], *v)
		}
	}
	sums := make([]string, len(counts))
	for i, c := range counts {
		sums[i] = fmt.Sprintf(
			"%[1]s = CASE WHEN usage_rows.%[1]s + excluded.%[1]s > %[2]d THEN %[2]d ELSE usage_rows.%[1]s + excluded.%[1]s END",
			c, usage.Most)
	}
	return s.insert(ctx, tx, "INSERT INTO usage_rows (day, group_id, agent_id, provider, model, source, "+
		strings.Join(counts, ", ")+")",
		"ON CONFLICT (day, group_id, agent_id, provider, model, source) DO UPDATE SET "+strings.Join(sums, ", "), values)
}

// Replace puts in place of what is there what a projection of the whole journal has made, which
// begins at usage.NoMark: of the days that begin after from on, of all if from is empty. keep
// has all rows stay, and adds to them: it is another journal. It is done from whatever mark,
// and gives rise to a new generation.
func (s *Store) Replace(ctx context.Context, b *usage.Batch, from string, keep bool) error {
	err := s.within(ctx, func(tx *sql.Tx) error {
		now, err := readMark(ctx, tx)
		if err != nil {
			return err
		}
		next := *b
		next.To.Generation = now.Generation + 1
		if (from != "" || keep) && !now.Since.IsZero() && now.Since.Before(next.To.Since) {
			next.To.Since = now.Since
		}
		if err := s.move(ctx, tx, now, next.To); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "DELETE FROM usage_open"); err != nil {
			return err
		}
		if !keep {
			if _, err := tx.ExecContext(ctx, s.text("DELETE FROM usage_rows WHERE day >= $1"), from); err != nil {
				return err
			}
			next.Rows = nil
			for _, r := range b.Rows {
				if r.Day >= from {
					next.Rows = append(next.Rows, r)
				}
			}
			if err := s.dropGaps(ctx, tx, b.Gaps, from == ""); err != nil {
				return err
			}
		}
		return s.change(ctx, tx, &next)
	})
	if err != nil && !errors.Is(err, ErrMoved) {
		return s.wrong("write to the history", err)
	}
	return err
}
