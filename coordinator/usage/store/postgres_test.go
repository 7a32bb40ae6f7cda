package store_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"taskbus/tests/support/postgrestest"
)

func TestPostgreSQL(t *testing.T) {
	server := postgrestest.Shared(t)
	conformance(t, func(t *testing.T) string { return server.Database(t) })
}

// A database with tables of other programs is shared with them, but for one that is called as
// ours.
func TestPostgreSQLBesideOthers(t *testing.T) {
	place := postgrestest.Shared(t).Database(t)
	c, err := pgx.Connect(t.Context(), place)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	if _, err := c.Exec(t.Context(),
		"CREATE TABLE customers (name TEXT); CREATE TABLE usage_rows (day TEXT, watts INT)"); err != nil {
		t.Fatal(err)
	}
	err = refused(t, place)
	if text := err.Error(); !strings.Contains(text, "usage_rows") || !strings.Contains(text, "?search_path=") {
		t.Errorf("it does not say what to do: %v", err)
	}
	var tables int
	count := "SELECT count(*) FROM pg_class WHERE relname LIKE 'usage%' AND relkind = 'r'"
	if err := c.QueryRow(t.Context(), count).Scan(&tables); err != nil || tables != 1 {
		t.Errorf("%d tables are called usage..., %v; one was there", tables, err)
	}
	if _, err := c.Exec(t.Context(), "DROP TABLE usage_rows"); err != nil {
		t.Fatal(err)
	}
	open(t, place)
}
