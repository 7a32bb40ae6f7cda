package store

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/usage"
)

// State is what a projection goes on from.
func (s *Store) State(ctx context.Context) (usage.State, error) {
	var state usage.State
	err := s.within(ctx, func(tx *sql.Tx) (err error) {
		// In PostgreSQL another statement of the transaction may see more than the one before.
		if s.mark == "$" {
			if _, err := tx.ExecContext(ctx, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"); err != nil {
				return err
			}
		}
		if state.Mark, err = readMark(ctx, tx); err != nil {
			return err
		}
		state.Open, err = readOpen(ctx, tx)
		return err
	})
	if err != nil {
		return state, s.wrong("read the state of the history", err)
	}
	return state, nil
}

// Mark is up to where the journal is in the rows.
func (s *Store) Mark(ctx context.Context) (usage.Mark, error) {
	m, err := readMark(ctx, s.reads)
	if err != nil {
		return m, s.wrong("read the state of the history", err)
	}
	return m, nil
}

type rower interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func readMark(ctx context.Context, from rower) (usage.Mark, error) {
	var m usage.Mark
	var check, epoch, next, since, at, againEpoch, againNext, doubts int64
	err := from.QueryRowContext(
		ctx, `SELECT journal_offset, checksum, epoch, next_record, again_offset, again_epoch, again_next, again_doubts,
		since_ns, at_ns, generation FROM usage_mark`).
		Scan(&m.Offset, &check, &epoch, &next, &m.Again.Offset, &againEpoch, &againNext, &doubts, &since, &at, &m.Generation)
	m.Check, m.Epoch, m.Next = uint32(check), uint64(epoch), uint64(next)
	m.Again.Epoch, m.Again.Next, m.Again.Doubts = uint64(againEpoch), uint64(againNext), doubts != 0
	m.Since, m.At = timeOf(since), timeOf(at)
	return m, err
}

func readOpen(ctx context.Context, tx *sql.Tx) ([]usage.Reservation, error) {
	rows, err := tx.QueryContext(ctx, "SELECT id, day, group_id, agent_id, provider, model, source FROM usage_open")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var open []usage.Reservation
	for rows.Next() {
		var r usage.Reservation
		var id string
		if err := rows.Scan(&id, &r.Day, &r.Group, &r.Agent, &r.Provider, &r.Model, &r.Source); err != nil {
			return nil, err
		}
		if r.ID, err = keyOf(id); err != nil {
			return nil, err
		}
		open = append(open, r)
	}
	return open, rows.Err()
}

// The id of a reservation is 32 hexadecimal digits.
func idOf(k coordinator.TaskKey) string { return fmt.Sprintf("%016x%016x", k[0], k[1]) }

func keyOf(id string) (k coordinator.TaskKey, err error) {
	if len(id) != 32 {
		return k, fmt.Errorf("the id %q of an open reservation is not one", id)
	}
	for i := range k {
		if k[i], err = strconv.ParseUint(id[16*i:16*i+16], 16, 64); err != nil {
			return k, fmt.Errorf("the id %q of an open reservation is not one", id)
		}
	}
	return k, nil
}

// Times are nanoseconds since 1970; 0 is none.
func nsOf(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func timeOf(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns).UTC()
}

// chunk is how many rows one statement writes.
const chunk = 50

// insert writes rows of values, many with one statement. head is what comes before VALUES, tail
// what comes behind.
func (s *Store) insert(ctx context.Context, tx *sql.Tx, head, tail string, rows [][]any) error {
	for len(rows) > 0 {
		some := rows[:min(chunk, len(rows))]
		rows = rows[len(some):]
		var b strings.Builder
		b.WriteString(head + " VALUES ")
		args := make([]any, 0, len(some)*len(some[0]))
		for i, row := range some {
			if i > 0 {
				b.WriteString(", ")
			}
			for j, v := range row {
				args = append(args, v)
				if j == 0 {
					b.WriteString("(")
				} else {
					b.WriteString(", ")
				}
				b.WriteString("$" + strconv.Itoa(len(args)))
			}
			b.WriteString(")")
		}
		if _, err := tx.ExecContext(ctx, s.text(b.String()+" "+tail), args...); err != nil {
			return err
		}
	}
	return nil
}
