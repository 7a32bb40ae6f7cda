package store_test

import (
	"testing"

	"taskbus/coordinator/usage/store/storetest"
	"taskbus/tests/postgrestest"
)

func TestPostgreSQL(t *testing.T) {
	server := postgrestest.Start(t)
	storetest.Run(t, func(t *testing.T) string { return server.Database(t) })
}
