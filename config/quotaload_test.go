package config

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"taskbus/config/quotas"
	"taskbus/coordinator"
	"taskbus/tests/support/configtest"
)

// What is recorded of a configuration with quotas gives the same decisions when it is read
// again.
func TestSourceWithQuotas(t *testing.T) {
	base := mustParse(t, string(testFiles(t)["valid-everything"]))
	alone := *base.Policy()
	for name, data := range quotaFiles(t) {
		if !strings.HasPrefix(name, "valid-") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			c := base.WithQuotas(mustParseQuotas(t, string(data)))
			p := c.Policy()
			again, err := ParseSource(p.Source, "recorded")
			if err != nil {
				t.Fatalf("%v in:\n%s", err, p.Source)
			}
			if got := again.Policy(); got.Version != p.Version || got.Source != p.Source ||
				!reflect.DeepEqual(got.Quotas, p.Quotas) {
				t.Errorf("read again: version %s, want %s; source:\n%s\nwant:\n%s", got.Version, p.Version, got.Source, p.Source)
			}
			if strings.Contains(p.Source, "#") {
				t.Errorf("the comments are still there:\n%s", p.Source)
			}
			// Other quotas, or none, take the place of these.
			if other := again.WithQuotas(nil).Policy(); other.Source != alone.Source || other.Version != alone.Version ||
				other.Quotas != nil {
				t.Errorf("without quotas: %s, want %s, of:\n%s", other.Version, alone.Version, other.Source)
			}
			if other := again.WithQuotas(p.Quotas).Policy(); other.Source != p.Source || other.Version != p.Version {
				t.Errorf("with the same quotas once more: %s, want %s, of:\n%s", other.Version, p.Version, other.Source)
			}
		})
	}
	if base.Policy().Version != alone.Version || base.Policy().Quotas != nil {
		t.Error("WithQuotas has changed the configuration that it was called on")
	}
	if again, err := ParseSource(alone.Source, "recorded"); err != nil || again.Policy().Quotas != nil ||
		again.Policy().Version != alone.Version {
		t.Errorf("a source without quotas: %v", err)
	}
	_, err := ParseSource("agents: 1"+documentBreak+"groups: 1\n", "recorded")
	if want :=
		"recorded:1:9: agents: must be a mapping of agent ids to agents, not 1\nrecorded (quotas.yaml):1:9: groups: must " +
			"be a list of groups, not 1"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// The version follows what quotas say, and nothing else.
func TestVersionFollowsTheQuotas(t *testing.T) {
	c := mustParse(t, "agents: {}")
	version := func(text string) string { return c.WithQuotas(mustParseQuotas(t, text)).Policy().Version }
	const base = "groups: [{id: a, total_quota_monthly_tokens: 100}, {id: b}]\nagents: [{id: x, group_id: " +
		"a}]\nproviders: [{provider: p}]\n"
	for name, same := range map[string]string{
		"comments": "# hi\n" + base,
		"order": "agents: [{id: x, group_id: a}]\ngroups: [{id: b}, {id: a, total_quota_monthly_tokens: " +
			"100}]\nproviders: [{provider: p}]\n",
		"spelt-out values": base +
			"timezone: UTC\nrepay_percent: 20\npool: {borrowing: {rule: accrued, global_pool: true}}\n",
		"the full language": "groups: [{id: a, limits: {total_tokens: {amount: 100, per: month}}}, {id: b, weight: " +
			"1}]\nagents: [{id: x, group_id: a, initial_quota: 0}]\nproviders: [{provider: p, share: first_come}]\n",
		"unused currencies": base + "currencies: {EUR: 1.08}\n",
	} {
		if got, want := version(same), version(base); got != want {
			t.Errorf("%s: version %s, want %s as before", name, got, want)
		}
	}
	versions := map[string]string{c.Policy().Version: "no quotas"}
	for _, text := range []string{
		"{}", base, strings.Replace(base, "100", "101", 1), strings.Replace(base, "id: b", "id: c", 1),
		strings.Replace(base, "id: b", "id: b, parent: a", 1),
		strings.Replace(base, "id: b", "id: b, weight: 2", 1), strings.Replace(base, "id: b", "id: b, provider: p", 1),
		strings.Replace(base, "id: b", "id: b, provider: p, model: m", 1),
		strings.Replace(base, "100", "100, reset_interval: daily", 1),
		strings.Replace(base, "100", "100, reset_interval_seconds: 60", 1),
		strings.Replace(base, "100", "100, reset_interval_seconds: 61", 1),
		strings.Replace(base, "100", "100, borrowing: {rule: never}", 1),
		strings.Replace(base, "100", "100, borrowing: {limit: 1}", 1),
		strings.Replace(base, "100", "100, borrowing: {limit: 1%}", 1),
		strings.Replace(base, "100", "100, borrowing: {priority: 1}", 1),
		strings.Replace(base, "100", "100, borrowing: {global_pool: false}", 1),
		strings.Replace(base, "100", "100, borrowing: {surcharge_percent: 1}", 1),
		strings.Replace(base, "100", "100, borrowing: {headroom_percent: 1}", 1),
		strings.Replace(base, "100", "100, lending: {limit: 1}", 1),
		strings.Replace(base, "group_id: a", "group_id: b", 1), strings.Replace(base, "group_id: a", "group_id: a, weight: 0",
			1), strings.Replace(base, "group_id: a", "group_id: a, initial_quota: 5", 1),
		strings.Replace(base, "group_id: a", "group_id: a, rate_limit_rps: 5", 1),
		strings.Replace(base, "group_id: a", "group_id: a, rate_limit_rps: 5, burst_capacity: 9", 1),
		strings.Replace(base, "group_id: a", "group_id: a, limits: {requests: {rate: 5, per: second}}", 1),
		strings.Replace(base, "group_id: a", "group_id: a, limits: {requests: {amount: 5, per: minute}}", 1),
		strings.Replace(base, "group_id: a", "group_id: a, limits: {concurrency: {amount: 5}}", 1),
		strings.Replace(base, "group_id: a", "group_id: a, limits: {cost_usd: {amount: 5, per: minute}}", 1),
		base + "timezone: Europe/Berlin", base + "timezone: Europe/Vienna", base + "repay_percent: 21",
		base + "alert_percents: [50]", base + "alert_percents: []", base + "routing: {price: 2}",
		base + "reservation_ttl_seconds: 901",
		base + "tombstone_ttl_seconds: 3601", base + "default_output_tokens: 513",
		base + "prices: [{provider: p, per_request: 1}]", base + "prices: [{provider: p, input_per_million_tokens: 1}]",
		base + "prices: [{provider: p, output_per_million_tokens: 1}]",
		base + "prices: [{provider: p, model: m, per_request: 1}]",
		base + "prices: [{provider: p, operation: m, per_request: 1}]",
		base + "prices: [{provider: p, per_request: 1, currency: EUR}]\ncurrencies: {EUR: 2}",
	} {
		got := version(text)
		if other, taken := versions[got]; taken {
			t.Errorf("%q has the version of %q", text, other)
		}
		versions[got] = text
		if version(text) != got {
			t.Errorf("%q has two versions", text)
		}
	}
}

func TestLoadWithQuotas(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	agents, quotas := file("agents.yaml", "agents: {}"), file("quotas.yaml", "groups: [{id: a}]")
	c, err := LoadWithQuotas(agents, quotas, Environment{})
	if err != nil {
		t.Fatal(err)
	}
	if q := c.Policy().Quotas; q == nil || len(q.Nodes) != 2 ||
		!strings.HasSuffix(c.Policy().Source, documentBreak+q.Source) {
		t.Errorf("quotas %+v, source %q", q, c.Policy().Source)
	}
	if c, err := LoadWithQuotas(agents, "", Environment{}); err != nil || c.Policy().Quotas != nil {
		t.Errorf("without quotas: %+v, %v", c, err)
	}
	// The faults of both files come together, those of agents.yaml first, whatever their lines.
	faulty, alsoFaulty := file("faulty.yaml", "agents: {}\n\n\ntopology: verfy"), file("also.yaml", "groups: [{}]")
	_, err = LoadWithQuotas(faulty, alsoFaulty, Environment{})
	var faults *Faults
	if !errors.As(err, &faults) || len(faults.List) != 2 || faults.List[0].Source != faulty ||
		faults.List[1].Source != alsoFaulty {
		t.Errorf("got %v, want one fault of each file", err)
	}
	for _, paths := range [][2]string{{faulty, quotas}, {agents, alsoFaulty}} {
		if _, err := LoadWithQuotas(paths[0], paths[1], Environment{}); !errors.As(err, &faults) || len(faults.List) != 1 {
			t.Errorf("%v: got %v, want one fault", paths, err)
		}
	}
	missing := filepath.Join(dir, "none.yaml")
	if _, err := LoadWithQuotas(agents, missing, Environment{}); !errors.Is(err, os.ErrNotExist) ||
		!strings.HasPrefix(err.Error(), "read the quotas: ") {
		t.Errorf("a missing quotas.yaml: %v", err)
	}
	if _, err := LoadWithQuotas(faulty, missing, Environment{}); !errors.Is(err, os.ErrNotExist) ||
		!strings.Contains(err.Error(), "verfy") {
		t.Errorf("faults and a missing file: %v", err)
	}
}

func TestSearchQuotas(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for _, path := range []string{"f.yaml", "v.yaml", "with/quotas.yaml"} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll("odd/quotas.yaml", 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, flag, variable, beside string
		path                         string
		found                        bool
		err                          string
	}{
		{name: "the flag goes first", flag: "f.yaml", variable: "v.yaml", beside: "with/agents.yaml", path: "f.yaml",
			found: true},
		{name: "then the variable", variable: "v.yaml", beside: "with/agents.yaml", path: "v.yaml", found: true},
		{name: "then the file beside agents.yaml", beside: "with/agents.yaml", path: "with/quotas.yaml", found: true},
		{name: "there need not be one", beside: "without/agents.yaml", path: "without/quotas.yaml"},
		{name: "a name must exist", flag: "none.yaml", beside: "with/agents.yaml",
			err: "find the quotas named by --quotas: stat none.yaml: no such file or directory"},
		{name: "nor is a variable passed over", variable: "none.yaml", beside: "with/agents.yaml",
			err: "find the quotas named by TASKBUS_QUOTAS: stat none.yaml: no such file or directory"},
		{name: "a directory", beside: "odd/agents.yaml",
			err: "find the quotas: odd/quotas.yaml is a directory; name the file in it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			getenv := func(name string) string { return map[string]string{"TASKBUS_QUOTAS": c.variable}[name] }
			path, found, err := SearchQuotas(c.flag, getenv, c.beside)
			if path != c.path || found != c.found || (err == nil) != (c.err == "") || err != nil && err.Error() != c.err {
				t.Errorf("%q, %v, %v; want %q, %v, %s", path, found, err, c.path, c.found, c.err)
			}
		})
	}
}

// quotaFiles are those of package quotas.
func quotaFiles(t testing.TB) map[string][]byte {
	t.Helper()
	return configtest.Files(t, "quotas/testdata")
}

// mustParseQuotas parses what the test knows to be valid.
func mustParseQuotas(t testing.TB, text string) *coordinator.Quotas {
	t.Helper()
	q, err := quotas.Parse([]byte(text), "quotas.yaml")
	if err != nil {
		t.Fatalf("%v\nin:\n%s", err, text)
	}
	return q
}
