package tests

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The import guard holds the code to the table below: which package may import which. It looks at
// what packages import directly; test files are exempt. A package without a row may not exist.

const module = "taskbus/"

// Modules outside the standard library that the table hands out.
const (
	modAmqp091    = "github.com/rabbitmq/amqp091-go"
	modCobra      = "github.com/spf13/cobra"
	modPflag      = "github.com/spf13/pflag"
	modCel        = "github.com/google/cel-go"
	modEnvoy      = "github.com/envoyproxy/go-control-plane/envoy"
	modFsnotify   = "github.com/fsnotify/fsnotify"
	modGonum      = "gonum.org/v1/gonum"
	modGrpc       = "google.golang.org/grpc"
	modJsonschema = "github.com/santhosh-tekuri/jsonschema/v5"
	modPgx        = "github.com/jackc/pgx/v5"
	modPrometheus = "github.com/prometheus/client_golang/prometheus"
	modProtobuf   = "google.golang.org/protobuf"
	modSQLite     = "modernc.org/sqlite"
	modXimage     = "golang.org/x/image"
	modXsync      = "golang.org/x/sync"
	modXxhash     = "github.com/cespare/xxhash/v2"
	modYaml       = "gopkg.in/yaml.v3"
	modZerolog    = "github.com/rs/zerolog"
)

// std is how much of the standard library a package may see.
type std int

const (
	stdAll  std = iota
	stdPure     // no I/O, clock, chance or context
)

// impureStd are the packages that stdPure forbids, with all below them.
var impureStd = []string{"bufio", "context", "crypto/rand", "io", "log", "math/rand", "net", "os", "syscall"}

// rule is one row of the table.
type rule struct {
	std std
	// may lists what else may be imported: packages of this module by their
	// path in it, other modules by their full path, both with all below them
	// when the path ends in "/...".
	may []string
	// all lifts the restriction, but not the rule about amqp091-go.
	all bool
}

// table has one row for each package, by its path in the module; a row that ends
// in "/..." is for everything below that has no row of its own.
var table = map[string]rule{
	"coordinator":           {std: stdPure, may: []string{"coordinator/hash"}},
	"coordinator/hash":      {std: stdPure},
	"coordinator/strategy":  {std: stdPure, may: []string{"coordinator", "coordinator/hash"}},
	"coordinator/capacity":  {std: stdPure},
	"coordinator/learning":  {std: stdPure, may: []string{"coordinator", "coordinator/hash", modGonum + "/mathext"}},
	"coordinator/breaker":   {std: stdPure, may: []string{"coordinator", "coordinator/heap"}},
	"coordinator/auction":   {std: stdPure, may: []string{"coordinator", "coordinator/hash"}},
	"coordinator/criteria":  {std: stdPure, may: []string{"coordinator", "coordinator/agentset"}},
	"coordinator/pull":      {std: stdPure, may: []string{"coordinator"}},
	"coordinator/agentset":  {std: stdPure},
	"coordinator/heap":      {std: stdPure},
	"coordinator/invariant": {std: stdPure},
	"coordinator/nearest":   {std: stdPure},
	"coordinator/pattern":   {std: stdPure},
	"coordinator/fairshare": {std: stdPure, may: []string{"coordinator", "coordinator/fairshare/arith",
		"coordinator/fairshare/billing", "coordinator/fairshare/calendar", "coordinator/fairshare/estimates",
		"coordinator/fairshare/health", "coordinator/fairshare/rates", "coordinator/fairshare/seats",
		"coordinator/heap"}},
	"coordinator/fairshare/arith": {std: stdPure, may: []string{"coordinator"}},
	"coordinator/fairshare/billing": {std: stdPure, may: []string{"coordinator", "coordinator/nearest",
		"coordinator/fairshare/arith",
		"coordinator/fairshare/estimates"}},
	"coordinator/fairshare/calendar":  {std: stdPure, may: []string{"coordinator"}},
	"coordinator/fairshare/estimates": {std: stdPure},
	"coordinator/fairshare/fairqueue": {std: stdPure, may: []string{"coordinator", "coordinator/fairshare/arith",
		"coordinator/heap"}},
	"coordinator/fairshare/health": {std: stdPure, may: []string{"coordinator"}},
	"coordinator/fairshare/rates":  {std: stdPure, may: []string{"coordinator", "coordinator/fairshare/arith"}},
	"coordinator/fairshare/seats":  {std: stdPure, may: []string{"coordinator", "coordinator/fairshare/arith"}},
	"coordinator/llmcalls": {std: stdPure, may: []string{"coordinator", "coordinator/hash", "coordinator/fairshare",
		"coordinator/fairshare/calendar", "coordinator/fairshare/estimates"}},
	"coordinator/onloss": {std: stdPure, may: []string{"coordinator", "coordinator/fairshare",
		"coordinator/fairshare/billing", "coordinator/fairshare/estimates", "coordinator/llmcalls"}},
	"coordinator/quotacontrol": {std: stdPure, may: []string{"coordinator", "coordinator/fairshare",
		"coordinator/fairshare/billing", "coordinator/fairshare/calendar"}},
	"coordinator/engine": {std: stdPure, may: []string{"coordinator", "coordinator/invariant", "coordinator/agentset",
		"coordinator/auction", "coordinator/engine/internal/admission", "coordinator/engine/internal/audit",
		"coordinator/engine/internal/choice", "coordinator/engine/internal/claims",
		"coordinator/engine/internal/dedupe", "coordinator/engine/internal/ejection",
		"coordinator/engine/internal/fleet", "coordinator/engine/internal/isolation",
		"coordinator/engine/internal/lanes", "coordinator/engine/internal/market",
		"coordinator/engine/internal/place", "coordinator/engine/internal/questions",
		"coordinator/engine/internal/queue", "coordinator/engine/internal/state", "coordinator/fairshare",
		"coordinator/fairshare/fairqueue",
		"coordinator/learning", "coordinator/pull", "coordinator/quotacontrol"}},
	"coordinator/replay": {may: []string{"coordinator", "coordinator/hash", "coordinator/strategy", "coordinator/engine",
		"coordinator/heap", "coordinator/journal"}},
	"coordinator/simulator": {may: []string{"config/yamlconf", "coordinator", "coordinator/hash", "coordinator/strategy",
		"coordinator/engine"}},
	"coordinator/simulator/pulling": {may: []string{"coordinator", "coordinator/pull", "coordinator/simulator",
		"agent/balance"}},
	"coordinator/simulator/sharing": {may: []string{"coordinator/fairshare/billing", "coordinator/simulator",
		"coordinator/fairshare/estimates", "coordinator/fairshare/fairqueue"}},
	"coordinator/simulator/priorities": {may: []string{"coordinator", "coordinator/fairshare/fairqueue",
		"coordinator/simulator"}},
	"coordinator/simulator/chart": {may: []string{modXimage + "/...", "coordinator/simulator",
		"coordinator/simulator/pulling"}},
	"messages": {may: []string{"schemas", "coordinator", "coordinator/nearest",
		"messages/internal/jsontext"}},
	"messages/internal/jsontext": {std: stdPure},
	"schemas":                    {may: []string{modJsonschema}},
	"config": {may: []string{modYaml, modFsnotify, "config/formula", "config/quotas", "config/yamlconf", "coordinator",
		"coordinator/criteria", "coordinator/strategy", "coordinator/fairshare/fairqueue"}},
	"config/quotas": {may: []string{modYaml, "config/yamlconf", "coordinator", "coordinator/fairshare/arith",
		"coordinator/nearest", "coordinator/pattern"}},
	"config/yamlconf": {may: []string{modYaml, "coordinator", "coordinator/nearest",
		"coordinator/pattern"}},
	"config/formula": {may: []string{modCel + "/...", "coordinator", "coordinator/pattern",
		"coordinator/strategy"}},
	"coordinator/bus": {},
	"coordinator/bus/amqpbus": {may: []string{"coordinator/bus", "coordinator/bus/amqpbus/internal/wire",
		modAmqp091, modZerolog}},
	"coordinator/bus/amqpbus/internal/wire": {may: []string{"coordinator/bus"}},
	"coordinator/journal":                   {may: []string{"coordinator", "coordinator/bus"}},
	"coordinator/failpoint":                 {},
	"coordinator/heard":                     {may: []string{"coordinator"}},
	"coordinator/usage": {std: stdPure, may: []string{"coordinator", "coordinator/journal", "coordinator/pattern",
		"coordinator/view"}},
	"coordinator/usage/store": {may: []string{"coordinator", "coordinator/usage", modPgx + "/...", modSQLite}},
	"coordinator/usage/history": {may: []string{"coordinator/bus", "coordinator/journal", "coordinator/usage",
		"coordinator/usage/store", modZerolog}},
	"coordinator/credential": {},
	"coordinator/view":       {std: stdPure, may: []string{"coordinator"}},
	"coordinator/gateway": {may: []string{"coordinator", "coordinator/hash", "coordinator/credential",
		"coordinator/view"}},
	"coordinator/httpapi": {may: []string{"coordinator", "coordinator/credential", "coordinator/httpapi/calls",
		"coordinator/httpapi/internal/web", "coordinator/pattern", "coordinator/usage", "coordinator/view", "messages",
		"schemas"}},
	"coordinator/httpapi/calls": {may: []string{"coordinator", "coordinator/credential", "coordinator/gateway",
		"coordinator/heard", "coordinator/httpapi/internal/web", "coordinator/pattern", "coordinator/view", "messages"}},
	"coordinator/httpapi/internal/web": {may: []string{"coordinator/gateway", "messages"}},
	"coordinator/callcache": {may: []string{"coordinator", "coordinator/credential", "coordinator/httpapi/calls",
		"agent/quota"}},
	"coordinator/webhook": {may: []string{"coordinator/heard", modPrometheus, modZerolog}},
	"coordinator/rls": {may: []string{"coordinator", "coordinator/gateway", "coordinator/pattern", "messages", modGrpc +
		"/...",
		modEnvoy + "/...", modProtobuf + "/..."}},
	"coordinator/service": {may: []string{
		"config", "config/quotas", "messages", "schemas",
		"coordinator", "coordinator/invariant", "coordinator/nearest",
		"coordinator/strategy", "coordinator/auction", "coordinator/fairshare",
		"coordinator/fairshare/fairqueue", "coordinator/llmcalls",
		"coordinator/engine",
		"coordinator/bus", "coordinator/journal", "coordinator/failpoint", "coordinator/gateway", "coordinator/httpapi",
		"coordinator/usage", "coordinator/view",
		"coordinator/service/internal/...",
		modPrometheus + "/...", modZerolog, modXxhash, modXsync + "/...",
	}},

	// The rooms of the shell: none knows the service or its session.
	"coordinator/service/internal/telemetry": {may: []string{modZerolog}},
	"coordinator/service/internal/views": {may: []string{"coordinator", "coordinator/nearest",
		"coordinator/bus", "coordinator/engine", "coordinator/fairshare", "coordinator/journal", "coordinator/view"}},
	"coordinator/service/internal/background": {},
	"coordinator/service/internal/stalls":     {},
	"coordinator/service/internal/agentqueues": {may: []string{"config", "coordinator", "coordinator/bus",
		"coordinator/service/internal/background"}},
	"coordinator/service/internal/takeback": {may: []string{"coordinator", "coordinator/bus",
		"coordinator/service/internal/background", "messages", modXxhash}},
	"coordinator/service/internal/lanes": {may: []string{"coordinator", "coordinator/bus",
		"coordinator/service/internal/background"}},
	"coordinator/service/internal/taking": {may: []string{"coordinator/bus"}},
	"coordinator/service/internal/vetting": {may: []string{"config", "coordinator", "coordinator/bus", "messages",
		"schemas"}},
	"coordinator/service/internal/callers": {may: []string{"coordinator", "coordinator/service/internal/views",
		"coordinator/view"}},
	"coordinator/service/internal/relay": {may: []string{"coordinator", "coordinator/bus", "coordinator/httpapi",
		"messages",
		"schemas"}},
	"coordinator/service/internal/clock": {may: []string{"coordinator/bus", "coordinator/failpoint"}},
	"coordinator/service/internal/metrics": {may: []string{"coordinator", "coordinator/bus", "coordinator/engine",
		"coordinator/fairshare", "coordinator/fairshare/fairqueue", "coordinator/fairshare/health",
		"coordinator/service/internal/telemetry", "coordinator/service/internal/views", "coordinator/strategy",
		"coordinator/view", modPrometheus + "/..."}},
	"coordinator/service/internal/observer": {may: []string{"config", "config/quotas", "coordinator", "coordinator/bus",
		"coordinator/invariant",
		"coordinator/service/internal/intake", "coordinator/service/internal/metrics",
		"coordinator/service/internal/outbox", "coordinator/service/internal/recent",
		"coordinator/service/internal/telemetry", "coordinator/service/internal/views", "coordinator/view", "messages",
		"schemas", modPrometheus + "/...", modZerolog}},
	"coordinator/service/internal/recent": {may: []string{"coordinator", "coordinator/engine", "coordinator/view"}},
	"coordinator/service/internal/controls": {may: []string{"config", "config/quotas", "coordinator", "coordinator/engine",
		"coordinator/httpapi", "coordinator/service/internal/alerts", "coordinator/service/internal/views",
		"coordinator/view"}},
	"coordinator/service/internal/dead": {may: []string{"coordinator/bus", "coordinator/failpoint",
		"coordinator/httpapi", "coordinator/service/internal/outbox", "coordinator/view", "messages", "schemas",
		modXxhash}},
	"coordinator/service/internal/reading": {may: []string{"coordinator", "coordinator/nearest", "coordinator/bus",
		"coordinator/engine",
		"coordinator/fairshare", "coordinator/httpapi",
		"coordinator/service/internal/recent", "coordinator/service/internal/views", "coordinator/view", "messages",
		"schemas"}},
	"coordinator/service/internal/alerts": {may: []string{"coordinator", "coordinator/httpapi", "coordinator/usage",
		"coordinator/view", "messages", "schemas"}},
	"coordinator/service/internal/intake": {may: []string{"coordinator", "coordinator/invariant",
		"coordinator/bus", "messages", modXxhash}},
	"coordinator/service/internal/coalesce": {may: []string{"coordinator"}},
	"coordinator/service/internal/outputs":  {may: []string{"coordinator"}},
	"coordinator/service/internal/outbox": {may: []string{"coordinator", "coordinator/bus", "messages", "schemas",
		modXxhash}},
	"coordinator/service/internal/journaling": {may: []string{"coordinator", "coordinator/bus", "coordinator/engine",
		"coordinator/failpoint", "coordinator/journal", "coordinator/service/internal/background", "coordinator/usage",
		"coordinator/view", modPrometheus + "/...", modZerolog}},
	"coordinator/service/internal/callgate": {may: []string{"coordinator", "coordinator/gateway",
		"coordinator/httpapi/calls", "coordinator/onloss", "coordinator/service/internal/telemetry", "coordinator/view",
		modPrometheus + "/...", modZerolog}},

	// The parts of the engine: none knows the engine or another part; flow is what several count with.
	"coordinator/engine/internal/admission": {std: stdPure, may: []string{"coordinator", "coordinator/agentset",
		"coordinator/engine/internal/flow", "coordinator/fairshare", "coordinator/fairshare/billing",
		"coordinator/fairshare/estimates", "coordinator/fairshare/fairqueue", "coordinator/heap",
		"coordinator/llmcalls"}},
	"coordinator/engine/internal/flow": {std: stdPure, may: []string{"coordinator"}},
	"coordinator/engine/internal/place": {std: stdPure, may: []string{"coordinator", "coordinator/fairshare",
		"coordinator/fairshare/fairqueue"}},
	"coordinator/engine/internal/choice": {std: stdPure, may: []string{"coordinator", "coordinator/hash",
		"coordinator/agentset", "coordinator/criteria", "coordinator/learning"}},
	"coordinator/engine/internal/claims": {std: stdPure, may: []string{"coordinator", "coordinator/agentset",
		"coordinator/pull"}},
	"coordinator/engine/internal/dedupe": {std: stdPure, may: []string{"coordinator"}},
	"coordinator/engine/internal/ejection": {std: stdPure, may: []string{"coordinator", "coordinator/agentset",
		"coordinator/breaker"}},
	"coordinator/engine/internal/ends":      {std: stdPure, may: []string{"coordinator"}},
	"coordinator/engine/internal/isolation": {std: stdPure, may: []string{"coordinator/heap"}},
	"coordinator/engine/internal/lanes": {std: stdPure, may: []string{"coordinator", "coordinator/invariant",
		"coordinator/fairshare/fairqueue",
		"coordinator/heap"}},
	"coordinator/engine/internal/fleet": {
		std: stdPure, may: []string{"coordinator", "coordinator/hash", "coordinator/invariant",
			"coordinator/agentset", "coordinator/capacity", "coordinator/criteria"},
	},
	"coordinator/engine/internal/market": {std: stdPure, may: []string{"coordinator", "coordinator/hash",
		"coordinator/auction"}},
	"coordinator/engine/internal/queue": {std: stdPure, may: []string{"coordinator", "coordinator/hash",
		"coordinator/agentset", "coordinator/fairshare/fairqueue"}},
	"coordinator/engine/internal/unresolved": {std: stdPure, may: []string{"coordinator"}},

	// What the parts are put together in: the state knows them, and questions and audit know the state.
	"coordinator/engine/internal/state": {std: stdPure,
		may: []string{"coordinator", "coordinator/invariant", "coordinator/nearest",
			"coordinator/agentset",
			"coordinator/auction", "coordinator/capacity", "coordinator/criteria",
			"coordinator/engine/internal/admission", "coordinator/engine/internal/choice",
			"coordinator/engine/internal/claims", "coordinator/engine/internal/dedupe",
			"coordinator/engine/internal/ejection", "coordinator/engine/internal/ends",
			"coordinator/engine/internal/fleet", "coordinator/engine/internal/flow",
			"coordinator/engine/internal/isolation", "coordinator/engine/internal/lanes",
			"coordinator/engine/internal/market", "coordinator/engine/internal/queue",
			"coordinator/engine/internal/unresolved", "coordinator/fairshare", "coordinator/fairshare/fairqueue",
			"coordinator/heap",
			"coordinator/learning", "coordinator/llmcalls", "coordinator/quotacontrol"}},
	"coordinator/engine/internal/questions": {std: stdPure, may: []string{"coordinator", "coordinator/agentset",
		"coordinator/engine/internal/admission", "coordinator/engine/internal/fleet",
		"coordinator/engine/internal/lanes", "coordinator/engine/internal/place",
		"coordinator/engine/internal/state", "coordinator/fairshare", "coordinator/fairshare/fairqueue"}},
	"coordinator/engine/internal/audit": {std: stdPure, may: []string{"coordinator", "coordinator/invariant",
		"coordinator/engine/internal/admission", "coordinator/engine/internal/fleet",
		"coordinator/engine/internal/state", "coordinator/fairshare/fairqueue"}},

	"agent": {may: []string{"agent/balance", "messages", "coordinator/bus", "coordinator/bus/amqpbus",
		modPrometheus}},
	"agent/balance": {may: []string{"coordinator", "coordinator/hash", "coordinator/capacity", modYaml}},
	"agent/quota":   {},
	"cmd/...":       {all: true},

	// The rooms of the command: none knows another, and cli, which all stand on, knows none.
	"cmd/taskbus/cli": {may: []string{"config", "coordinator", "coordinator/nearest",
		"coordinator/bus", "coordinator/bus/amqpbus",
		"coordinator/gateway", "coordinator/view", "messages", modCobra, modZerolog}},
	"cmd/taskbus/internal/journal": {may: []string{"cmd/taskbus/cli", "config", "coordinator",
		"coordinator/bus", "coordinator/journal", "coordinator/usage", "coordinator/usage/store", "coordinator/view",
		"messages", modCobra}},
	"cmd/taskbus/internal/quota": {may: []string{"agent/quota", "cmd/taskbus/cli", "coordinator", "coordinator/nearest",
		"coordinator/callcache", "coordinator/httpapi", "coordinator/view", modCobra}},
	"cmd/taskbus/internal/setup": {may: []string{"cmd/taskbus/cli", "config", "config/quotas", "coordinator",
		"coordinator/bus",
		"coordinator/bus/amqpbus", "coordinator/criteria", "coordinator/fairshare", "coordinator/journal",
		"coordinator/view", "messages", "schemas", modCobra}},
	"cmd/taskbus/internal/task": {may: []string{"cmd/taskbus/cli", "coordinator", "coordinator/bus",
		"coordinator/httpapi", "coordinator/view", "messages", "schemas", modCobra}},
	"cmd/taskbus/internal/fleet": {may: []string{"cmd/taskbus/cli", "config", "coordinator", "coordinator/bus",
		"coordinator/credential", "coordinator/view", "messages", modCobra}},
	"cmd/taskbus/internal/sim": {may: []string{"cmd/taskbus/cli", "config", "config/formula",
		"config/yamlconf", "coordinator", "coordinator/gateway", "coordinator/replay", "coordinator/strategy",
		"coordinator/view", "coordinator/simulator/...", modCobra, modPflag}},

	// Examples are what a stranger writes: with the SDK, or knowing the bus alone.
	"examples/...": {may: []string{modAmqp091, "agent", "agent/quota", "messages"}},
	"tests/...":    {all: true},
}

// clockless packages may use the time package for its types only.
var clockless = []string{"coordinator", "coordinator/agentset", "coordinator/heap", "coordinator/invariant",
	"coordinator/nearest",
	"coordinator/strategy", "coordinator/learning",
	"coordinator/capacity", "coordinator/breaker", "coordinator/auction", "coordinator/pull", "coordinator/fairshare",
	"coordinator/fairshare/arith", "coordinator/fairshare/rates", "coordinator/fairshare/calendar",
	"coordinator/fairshare/fairqueue",
	"coordinator/fairshare/billing", "coordinator/fairshare/estimates", "coordinator/fairshare/health",
	"coordinator/fairshare/seats",
	"coordinator/hash", "coordinator/llmcalls", "coordinator/onloss", "coordinator/quotacontrol", "coordinator/criteria",
	"coordinator/engine",
	"coordinator/engine/internal/admission", "coordinator/engine/internal/choice",
	"coordinator/engine/internal/claims", "coordinator/engine/internal/dedupe",
	"coordinator/engine/internal/ejection",
	"coordinator/engine/internal/lanes", "coordinator/engine/internal/market", "coordinator/engine/internal/queue",
	"coordinator/engine/internal/fleet", "coordinator/engine/internal/flow", "coordinator/engine/internal/place",
	"coordinator/engine/internal/state", "coordinator/engine/internal/questions", "coordinator/engine/internal/audit",
	"coordinator/simulator",
	"coordinator/simulator/pulling", "coordinator/simulator/sharing", "coordinator/simulator/priorities",
	"coordinator/journal", "coordinator/replay", "coordinator/heard", "coordinator/usage", "coordinator/view",
	"agent/balance"}

var clockFuncs = []string{"After", "AfterFunc", "NewTicker", "NewTimer", "Now", "Since", "Sleep", "Tick", "Until"}

// pkg is what the guard needs of `go list -json`.
type pkg struct {
	ImportPath, Dir, Doc              string
	Imports                           []string
	GoFiles, CgoFiles, IgnoredGoFiles []string
}

func TestImportGuard(t *testing.T) {
	for _, p := range listPackages(t) {
		for _, v := range importViolations(p.ImportPath, p.Imports) {
			t.Error(v)
		}
		for _, name := range slices.Concat(p.GoFiles, p.CgoFiles, p.IgnoredGoFiles) {
			if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
				continue
			}
			vs, err := sourceViolations(p.ImportPath, filepath.Join(p.Dir, name), nil)
			if err != nil {
				t.Errorf("read the source of %s: %v", p.ImportPath, err)
			}
			for _, v := range vs {
				t.Error(v)
			}
		}
	}
}

// A guard that cannot fail guards nothing: every rule is broken here once.
func TestImportGuardFindsViolations(t *testing.T) {
	const rowSays = "the table of tests/guard_test.go"
	for _, c := range []struct{ name, path, imports, want string }{
		{"pure package, pure import", "taskbus/coordinator", "time", ""},
		{"pure package, I/O", "taskbus/coordinator", "os", "no I/O, clock, chance"},
		{"pure package, I/O below", "taskbus/coordinator/engine", "net/http", "no I/O, clock, chance"},
		{"pure package, chance", "taskbus/coordinator/strategy", "math/rand/v2", "no I/O, clock, chance"},
		{"a name that only begins alike", "taskbus/coordinator/engine", "iter", ""},
		{"engine, learning", "taskbus/coordinator/engine", "taskbus/coordinator/learning", ""},
		{"a part of the engine knows no engine", "taskbus/coordinator/engine/internal/dedupe", "taskbus/coordinator/engine",
			rowSays},
		{"calls know no engine", "taskbus/coordinator/llmcalls", "taskbus/coordinator/engine", rowSays},
		{"nor what else changes quotas", "taskbus/coordinator/llmcalls", "taskbus/coordinator/quotacontrol", rowSays},
		{"strategy, engine: backwards", "taskbus/coordinator/strategy", "taskbus/coordinator/engine", rowSays},
		{"bus sees no client", "taskbus/coordinator/bus", modAmqp091, "only coordinator/bus/amqpbus"},
		{"service never sees amqpbus", "taskbus/coordinator/service", "taskbus/coordinator/bus/amqpbus", rowSays},
		{"service, metrics below the prefix", "taskbus/coordinator/service", modPrometheus + "/promhttp", ""},
		{"formulas are compiled at the edge", "taskbus/coordinator/strategy", modCel + "/cel", rowSays},
		{"and there alone", "taskbus/config", modCel + "/cel", rowSays},
		{"cmd may all", "taskbus/cmd/taskbus", "taskbus/coordinator/bus/amqpbus", ""},
		{"but not the client", "taskbus/cmd/taskbus", modAmqp091, "only coordinator/bus/amqpbus"},
		{"nor what supports tests", "taskbus/cmd/taskbus", "taskbus/tests/support/membus", "nothing of tests/"},
		{"nor of commands", "taskbus/cmd/taskbus/internal/task", "taskbus/tests/support/clitest", "nothing of tests/"},
		{"a room of the command knows no other", "taskbus/cmd/taskbus/internal/task", "taskbus/cmd/taskbus/internal/fleet",
			rowSays},
		{"tests may", "taskbus/tests/support/bustest", "taskbus/tests/support/membus", ""},
		{"the bench relay is a bare client", "taskbus/tests/bench", modAmqp091, ""},
		{"the global logger", "taskbus/cmd/taskbus", modZerolog + "/log", "global logger"},
		{"unsafe", "taskbus/messages", "unsafe", "only coordinator/journal"},
		{"unsafe for records", "taskbus/coordinator/journal", "unsafe", ""},
		{"an example with the SDK", "taskbus/examples/go/sdk-agent", "taskbus/agent", ""},
		{"an example knows nothing of the inside", "taskbus/examples/go/sdk-agent", "taskbus/coordinator/bus", rowSays},
		{"a package outside the table", "taskbus/util", "fmt", "no row"},
	} {
		t.Run(c.name, func(t *testing.T) {
			expect(t, importViolations(c.path, []string{c.imports}), c.want)
		})
	}
	for _, c := range []struct{ name, path, source, want string }{
		{"types of time", "taskbus/coordinator/engine", `import "time"; var d time.Duration = time.Second`, ""},
		{"a call of the clock", "taskbus/coordinator/engine", `import "time"; func f() time.Time { return time.Now() }`,
			"time.Now"},
		{"the clock as a value, renamed", "taskbus/coordinator", `import clock "time"; var f = clock.Since`, "time.Since"},
		{"the clock elsewhere", "taskbus/coordinator/service", `import "time"; var f = time.Now`, ""},
		{"init", "taskbus/messages", `func init() {}`, "init()"},
		{"a method called init", "taskbus/messages", `type t struct{}; func (t) init() {}`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := sourceViolations(c.path, "source.go", []byte("package p\n"+c.source))
			if err != nil {
				t.Fatal(err)
			}
			expect(t, got, c.want)
		})
	}
}

func expect(t *testing.T, got []string, want string) {
	t.Helper()
	switch {
	case want == "" && len(got) > 0:
		t.Errorf("allowed, but the guard says: %q", got)
	case want != "" && (len(got) == 0 || !strings.Contains(got[0], want)):
		t.Errorf("the guard says %q, want one violation with %q", got, want)
	}
}

// importViolations says what is wrong with a package's imports, which rule that
// breaks and what to do.
func importViolations(path string, imports []string) []string {
	name, _ := strings.CutPrefix(path, module)
	r, row, ok := rowFor(name)
	if !ok {
		return []string{fmt.Sprintf("%s: no row in the table of tests/guard_test.go names this package. "+
			"Put the code into a package that answers its question, or add a row here.", name)}
	}
	var found []string
	add := func(format string, args ...any) { found = append(found, name+": "+fmt.Sprintf(format, args...)) }
	for _, imp := range imports {
		switch {
		case imp == modZerolog+"/log":
			add("imports the global logger %s. Rule: no global loggers. Take a zerolog.Logger as an argument.", imp)
		case strings.HasPrefix(imp, modAmqp091) && !seesClient(name):
			add(
				"imports %s. Rule: only coordinator/bus/amqpbus (and tests/ and examples/) sees the client. Use the types of "+
					"coordinator/bus.", imp)
		case imp == "unsafe" && name != "coordinator/journal":
			add("imports unsafe. Rule: only coordinator/journal does, where reflection took twice as long for every record.")
		case inTests(imp) && !inTests(path):
			add(
				"imports %s. Rule: the product imports nothing of tests/. Move what the product needs out of tests/, or the "+
					"import into a _test.go file.", imp)
		case r.all:
		case isStd(imp):
			if r.std == stdPure && below(imp, impureStd) {
				add(
					"imports %s. Rule: no I/O, clock, chance or context here. Move the I/O to an edge and bring its result in as "+
						"an event or an argument.", imp)
			}
		case !allowed(imp, r.may):
			add("imports %s. Rule: the row %q of the table of tests/guard_test.go allows only the standard library and %v. "+
				"Turn the dependency round (an interface at the consumer), or change the table.", imp, row, r.may)
		}
	}
	return found
}

// inTests reports whether a package is for tests only. What supports the tests of packages that are internal stands
// beside them.
func inTests(path string) bool {
	return below(path, []string{module + "tests"})
}

func seesClient(name string) bool {
	return name == "coordinator/bus/amqpbus" || strings.HasPrefix(name, "tests/") || strings.HasPrefix(name, "examples/")
}

func rowFor(name string) (rule, string, bool) {
	if r, ok := table[name]; ok {
		return r, name, true
	}
	for prefix := name; prefix != "."; prefix = filepath.Dir(prefix) {
		if r, ok := table[prefix+"/..."]; ok {
			return r, prefix + "/...", true
		}
	}
	return rule{}, "", false
}

func isStd(imp string) bool {
	first, _, _ := strings.Cut(imp, "/")
	return !strings.Contains(first, ".") && first+"/" != module
}

func allowed(imp string, may []string) bool {
	imp = strings.TrimPrefix(imp, module)
	return slices.ContainsFunc(may, func(m string) bool {
		if prefix, tree := strings.CutSuffix(m, "/..."); tree {
			return below(imp, []string{prefix})
		}
		return imp == m
	})
}

func below(imp string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return imp == p || strings.HasPrefix(imp, p+"/") })
}

// sourceViolations finds what imports alone do not show. source nil reads the file.
func sourceViolations(path, file string, source []byte) ([]string, error) {
	var src any
	if source != nil {
		src = source
	}
	fset := token.NewFileSet()
	tree, err := parser.ParseFile(fset, file, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	name, _ := strings.CutPrefix(path, module)
	var found []string
	timeName := ""
	for _, imp := range tree.Imports {
		if p, _ := strconv.Unquote(imp.Path.Value); p == "time" {
			timeName = "time"
			if imp.Name != nil {
				timeName = imp.Name.Name
			}
		}
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if n.Recv == nil && n.Name.Name == "init" {
				found = append(found, fmt.Sprintf(
					"%s: init() function. Rule: nothing happens because a package is imported. Build the value in a constructor or "+
						"a package variable.", fset.Position(n.Pos())))
			}
		case *ast.SelectorExpr:
			x, ok := n.X.(*ast.Ident)
			if ok && timeName != "" && x.Name == timeName && slices.Contains(clockless, name) &&
				slices.Contains(clockFuncs, n.Sel.Name) {
				found = append(found, fmt.Sprintf("%s: time.%s. Rule: no clock in %s. Take `now time.Time` as an argument.",
					fset.Position(n.Pos()), n.Sel.Name, name))
			}
		}
		return true
	})
	return found, nil
}

// listPackages asks go list for every package of the module. "-e" keeps packages
// that do not compile in the list: their imports count too.
func listPackages(t *testing.T) []pkg {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Dir,Doc,Imports,GoFiles,CgoFiles,IgnoredGoFiles",
		module+"...")
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	var pkgs []pkg
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("read the answer of go list: %v", err)
		}
		pkgs = append(pkgs, p)
	}
	if len(pkgs) == 0 {
		t.Fatal("go list found no packages")
	}
	return pkgs
}
