package store

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"taskbus/coordinator"
	"taskbus/coordinator/usage"
)

// Usage gives the rows of a question, in the order of their keys; those of latest days first if
// there are more than limit. more says that there are.
func (s *Store) Usage(ctx context.Context, q usage.Query) (rows []usage.Row, more bool, err error) {
	rows, err = s.usage(ctx, &q)
	if err != nil {
		return nil, false, s.wrong("read the history", err)
	}
	if q.Limit > 0 && len(rows) > q.Limit {
		rows, more = rows[:q.Limit], true
	}
	usage.Sort(rows)
	return rows, more, nil
}

func (s *Store) usage(ctx context.Context, q *usage.Query) ([]usage.Row, error) {
	var where []string
	var args []any
	is := func(condition, value string) {
		if value != "" {
			args = append(args, value)
			where = append(where, condition+" $"+strconv.Itoa(len(args)))
		}
	}
	is("group_id =", q.Group)
	is("agent_id =", q.Agent)
	if keys := coordinator.PoolsOfKeys(q.Provider); keys == "" {
		is("provider =", q.Provider)
	} else { // it, and all of its keys
		args = append(args, q.Provider, keys)
		n := len(args)
		where = append(where, fmt.Sprintf("(provider = $%d OR substr(provider, 1, %d) = $%d)", n-1,
			utf8.RuneCountInString(keys), n))
	}
	is("model =", q.Model)
	is("day >=", q.From)
	is("day <=", q.To)
	day := map[usage.By]string{usage.ByDay: "day", usage.ByMonth: "substr(day, 1, 7)",
		usage.ByTotal: "substr(day, 1, 0)"}[q.By]
	var b strings.Builder
	b.WriteString("SELECT " + day + " AS part, group_id, agent_id, provider, model, source")
	for _, c := range counts {
		b.WriteString(", CAST(SUM(" + c + ") AS BIGINT)")
	}
	b.WriteString(" FROM usage_rows")
	if len(where) > 0 {
		b.WriteString(" WHERE " + strings.Join(where, " AND "))
	}
	b.WriteString(" GROUP BY part, group_id, agent_id, provider, model, source")
	b.WriteString(" ORDER BY part DESC, group_id, agent_id, provider, model, source")
	if q.Limit > 0 {
		b.WriteString(" LIMIT " + strconv.Itoa(q.Limit+1))
	}
	found, err := s.reads.QueryContext(ctx, s.text(b.String()), args...)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	return scan(found)
}

func scan(found *sql.Rows) ([]usage.Row, error) {
	var rows []usage.Row
	for found.Next() {
		var r usage.Row
		into := []any{&r.Day, &r.Group, &r.Agent, &r.Provider, &r.Model, &r.Source}
		for _, f := range r.Fields() {
			into = append(into, f)
		}
		if err := found.Scan(into...); err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
	return rows, found.Err()
}

// mostGaps is how many gaps are reported.
const mostGaps = 100

// Gaps are what is missing, the newest first.
func (s *Store) Gaps(ctx context.Context) ([]usage.Gap, error) {
	found, err := s.reads.QueryContext(ctx,
		s.text(
			"SELECT from_ns, to_ns, journal_offset, lost, reason FROM usage_gaps ORDER BY journal_offset DESC, from_ns DESC, "+
				"reason LIMIT $1"), mostGaps)
	if err != nil {
		return nil, s.wrong("read the gaps of the history", err)
	}
	defer found.Close()
	var gaps []usage.Gap
	for found.Next() {
		var g usage.Gap
		var from, to int64
		if err := found.Scan(&from, &to, &g.Offset, &g.Lost, &g.Reason); err != nil {
			return nil, s.wrong("read the gaps of the history", err)
		}
		g.From, g.To = timeOf(from), timeOf(to)
		gaps = append(gaps, g)
	}
	return gaps, found.Err()
}
