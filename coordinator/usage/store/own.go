package store

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
)

// applicationID is in the header of SQLite files that are histories of Taskbus: "TBus". Files of
// versions before it was written have 0, as those of most other programs have.
const applicationID = 0x54427573

// versions is the table that says which migrations have run.
const versions = "usage_schema"

// made are the tables and columns that all migrations together make, but for versions.
var made = map[string][]string{
	"usage_rows": append([]string{"day", "group_id", "agent_id", "provider", "model", "source"}, counts...),
	"usage_open": {"id", "day", "group_id", "agent_id", "provider", "model", "source"},
	"usage_gaps": {"from_ns", "to_ns", "journal_offset", "lost", "reason"},
	"usage_mark": {"one", "journal_offset", "checksum", "epoch", "next_record", "since_ns", "at_ns", "generation",
		"again_offset", "again_epoch", "again_next", "again_doubts"},
}

// own refuses what another program has made, before anything is changed in it.
func (s *Store) own(ctx context.Context, tx *sql.Tx) error {
	if s.mark == "?" {
		if err := s.ownFile(ctx, tx); err != nil {
			return err
		}
	}
	columns, err := s.columns(ctx, tx, versions)
	switch {
	case err != nil:
		return err
	case slices.Contains(columns, "version"):
		return nil
	case len(columns) > 0:
		return s.otherMake(versions)
	}
	// Nothing of ours is there, so that none of its names may be taken.
	for _, table := range madeNames() {
		if columns, err := s.columns(ctx, tx, table); err != nil {
			return err
		} else if len(columns) > 0 {
			return s.otherMake(table)
		}
	}
	return nil
}

// ownFile refuses a SQLite file of another program, and has one of ours say whose it is. A file
// with tables of ours is ours, also if it does not say so yet.
func (s *Store) ownFile(ctx context.Context, tx *sql.Tx) error {
	var id int64
	if err := tx.QueryRowContext(ctx, "PRAGMA application_id").Scan(&id); err != nil {
		return err
	}
	tables,
		err := list(ctx, tx,
		"SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite~_%' ESCAPE '~' ORDER BY "+
			"name")
	if err != nil {
		return err
	}
	ours := slices.Contains(tables, versions)
	others := slices.DeleteFunc(tables, func(name string) bool { return name == versions || made[name] != nil })
	switch {
	case id == applicationID:
		return nil
	case id != 0:
		return s.foreign(fmt.Sprintf("the file belongs to another program (its application_id is %d)", id))
	case len(others) > 0 && !ours:
		return s.foreign("the file belongs to another program (it has a table " + others[0] + ")")
	case len(others) > 0: // an earlier version has come into another program's file; the rest stays theirs
		return nil
	}
	_, err = tx.ExecContext(ctx, fmt.Sprintf("PRAGMA application_id = %d", applicationID))
	return err
}

func (s *Store) foreign(why string) error {
	return &UnusableError{Why: why,
		Do: "nothing was changed in it; name a file in TASKBUS_HISTORY that is not there yet, or move this one away"}
}

// complete refuses tables that are not as the migrations make them.
func (s *Store) complete(ctx context.Context, tx *sql.Tx) error {
	for _, table := range madeNames() {
		columns, err := s.columns(ctx, tx, table)
		if err != nil {
			return err
		}
		for _, c := range made[table] {
			if !slices.Contains(columns, c) {
				return s.otherMake(table)
			}
		}
	}
	return nil
}

// otherMake is the error of a table that has the name of one of ours, and is another.
func (s *Store) otherMake(table string) error {
	why := "there is a table " + table + " that taskbus has not made, or that was changed since"
	if s.mark == "?" {
		return s.broken(why, nil)
	}
	return &UnusableError{Why: why,
		Do: "nothing was changed; name another database in TASKBUS_HISTORY, or a schema of its own (?search_path=...)"}
}

// madeNames are the names of made, in order.
func madeNames() []string { return slices.Sorted(maps.Keys(made)) }

// columns of a table, or view, where tables are made; none if there is none.
func (s *Store) columns(ctx context.Context, tx *sql.Tx, table string) ([]string, error) {
	query := "SELECT name FROM pragma_table_info(?1)"
	if s.mark == "$" {
		query = `SELECT a.attname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
			JOIN pg_namespace n ON n.oid = c.relnamespace
			WHERE n.nspname = current_schema() AND c.relname = $1 AND a.attnum > 0 AND NOT a.attisdropped`
	}
	return list(ctx, tx, query, table)
}

// list reads the one column of a question.
func list(ctx context.Context, tx *sql.Tx, query string, args ...any) (all []string, err error) {
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var one string
		if err := rows.Scan(&one); err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, rows.Err()
}
