package store_test

import (
	"path/filepath"
	"testing"

	"taskbus/coordinator/usage/store/storetest"
)

func TestSQLite(t *testing.T) {
	storetest.Run(t, func(t *testing.T) string {
		// A directory that is not there yet, and letters that mean something in URLs.
		return filepath.Join(t.TempDir(), "taskbus state", "50%?#ä", "history.db")
	})
}
