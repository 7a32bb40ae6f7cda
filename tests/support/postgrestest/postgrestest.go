// Package postgrestest answers: where is a real PostgreSQL for a test? It starts one with
// postgres.sh beside it, and ends it with the test.
//
// It must never use one that it did not start, nor skip a test silently: without PostgreSQL the
// test fails and says what to install.
package postgrestest

import (
	"bytes"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"taskbus/tests/support/brokertest"
)

// Server is a private PostgreSQL.
type Server struct {
	dir       string
	databases atomic.Int64
}

// Start starts one, which ends with the test.
func Start(t testing.TB) *Server {
	t.Helper()
	dir := directory(t)
	s := &Server{dir: dir}
	t.Cleanup(func() {
		s.Stop(t)
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	s.Start(t)
	return s
}

// shared is the server of all tests of this process that do not end theirs.
var shared struct {
	mu     sync.Mutex
	server *Server
}

// Shared is one that belongs to all tests of this process, each of which makes a database of its
// own in it, and none of which ends it: it ends with the process.
func Shared(t testing.TB) *Server {
	t.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.server == nil {
		s := &Server{dir: directory(t)}
		s.Start(t)
		shared.server = s
	}
	return shared.server
}

// directory is not below t.TempDir: as root the server is another user, who must be able to get there.
func directory(t testing.TB) string {
	t.Helper()
	brokertest.Needs(t, "PostgreSQL")
	dir, err := os.MkdirTemp("", "taskbus-postgres-")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// Start starts it again, Stop ends it in order, Kill as a crash would.
func (s *Server) Start(t testing.TB) {
	t.Helper()
	s.script(t, "start", "--until-gone", strconv.Itoa(os.Getpid()))
}
func (s *Server) Stop(t testing.TB) { t.Helper(); s.script(t, "stop") }
func (s *Server) Kill(t testing.TB) { t.Helper(); s.script(t, "kill") }

// Database makes an empty database and gives its URL.
func (s *Server) Database(t testing.TB) string {
	t.Helper()
	u, err := url.Parse(s.script(t, "url"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := pgx.Connect(t.Context(), u.String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	name := fmt.Sprintf("test_%d", s.databases.Add(1))
	if _, err := c.Exec(t.Context(), "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + name
	return u.String()
}

func (s *Server) script(t testing.TB, verb string, args ...string) string {
	t.Helper()
	program := filepath.Join(brokertest.ModuleRoot(t), "tests", "support", "postgrestest", "postgres.sh")
	cmd := exec.Command(program, append([]string{verb, "--dir", s.dir}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("postgres.sh %s: %v: %s", verb, err, strings.TrimSpace(errs.String()))
	}
	return strings.TrimSpace(out.String())
}
