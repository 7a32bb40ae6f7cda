package store

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

//go:embed migrations/*.sql
var migrations embed.FS

// tables is the text of a migration in the words of the database: texts are compared byte by
// byte, whatever language PostgreSQL was set up for.
func (s *Store) tables(text string) string {
	if s.mark == "$" {
		return strings.ReplaceAll(text, " TEXT ", ` TEXT COLLATE "C" `)
	}
	return text
}

// migrate runs the migrations that have not run yet, in the order of their names, in one
// transaction; in a database that is not ours it changes nothing. Several programs may do so at once.
func (s *Store) migrate(ctx context.Context) error {
	names, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return err
	}
	slices.Sort(names)
	return s.within(ctx, func(tx *sql.Tx) error {
		if s.mark == "$" { // SQLite's transactions are one at a time anyway
			if _, err := tx.ExecContext(ctx, "SELECT pg_advisory_xact_lock(7234017283807667301)"); err != nil {
				return err
			}
		}
		if err := s.own(ctx, tx); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS usage_schema (version BIGINT NOT NULL)"); err != nil {
			return err
		}
		var version int
		if err := tx.QueryRowContext(ctx, "SELECT COALESCE(MAX(version), 0) FROM usage_schema").Scan(&version); err != nil {
			return err
		}
		if version > len(names) {
			return fmt.Errorf(
				"its tables are of version %d, and this version of taskbus knows them up to %d: start the newer version, or use "+
					"another TASKBUS_HISTORY", version, len(names))
		}
		for i := version; i < len(names); i++ {
			text, err := fs.ReadFile(migrations, names[i])
			if err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, s.tables(string(text))); err != nil {
				return fmt.Errorf("%s: %w", names[i], err)
			}
			if _, err := tx.ExecContext(ctx, s.text("INSERT INTO usage_schema (version) VALUES ($1)"), i+1); err != nil {
				return err
			}
		}
		return s.complete(ctx, tx)
	})
}
