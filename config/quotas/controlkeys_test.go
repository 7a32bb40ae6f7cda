package quotas

import (
	"strings"
	"testing"
	"time"

	"taskbus/coordinator"
)

// keyed is a provider with two keys, one of which lists a model that is shared by weight, beside one
// whose name begins alike.
const keyed = `
groups: [{id: alpha, weight: 3}, {id: beta}]
providers:
  - {provider: openai-eu, limits: {requests: {rate: 9, per: minute}}}
  - provider: openai
    key: a
    models: [{model: gpt-4o, share: by_weight, limits: {requests: {rate: 100, per: minute}}}]
  - {provider: openai, key: b, limits: {requests: {rate: 50, per: minute}, concurrency: {amount: 4}}}
`

func quotasFrom(t *testing.T, text string) *coordinator.Quotas {
	t.Helper()
	q, err := Parse([]byte(text), "quotas.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// A provider's key is a pool of its own, and so are its models and the groups' parts in them: they
// can be set and boosted like any other node, and nothing else changes with them.
func TestControlsOfKeys(t *testing.T) {
	base := quotasFrom(t, keyed)
	const req = coordinator.DimRequests
	rate := func(n *coordinator.QuotaNode) int64 { return n.Rates[req].Nominal }
	seats := func(n *coordinator.QuotaNode) int64 { return n.Seats.Nominal }
	weight := func(n *coordinator.QuotaNode) int64 { return n.Weight }
	raise := coordinator.QuotaControl{ID: "up", Kind: coordinator.ControlBoost, Target: "openai@b", Key: "concurrency",
		Value: "+50%", Until: time.Unix(1<<40, 0)}
	for _, tc := range []struct {
		control coordinator.QuotaControl
		of      func(*coordinator.QuotaNode) int64
		was, is int64
	}{
		{set("openai@b", "requests.rate", "7"), rate, 50, 7},
		{set("openai@a/gpt-4o", "requests.rate", "7"), rate, 100, 7},
		{set("openai@a/gpt-4o/beta", "weight", "2"), weight, 1, 2},
		{set("openai-eu", "requests.rate", "7"), rate, 9, 7},
		{raise, seats, 4, 6}, // and half of 4
	} {
		id := tc.control.Target
		t.Run(id+" "+tc.control.Key, func(t *testing.T) {
			changed, suspended := controlQuotas(base, []coordinator.QuotaControl{tc.control})
			if len(suspended) > 0 {
				t.Fatal(suspended)
			}
			if was, is := tc.of(nodeOf(t, base, id)), tc.of(nodeOf(t, changed, id)); was != tc.was || is != tc.is {
				t.Errorf("%d became %d; want %d and %d", was, is, tc.was, tc.is)
			}
			if len(changed.Nodes) != len(base.Nodes) {
				t.Errorf("%d nodes became %d", len(base.Nodes), len(changed.Nodes))
			}
		})
	}
}

// The provider's name alone is no node where it has keys, and a key that is not listed is none
// either: that is said, and nothing changes.
func TestControlsOfNoKey(t *testing.T) {
	for _, id := range []string{"openai", "openai@c", "openai@", "@a", "openai@a@b"} {
		_, suspended := controlQuotas(quotasFrom(t, keyed), []coordinator.QuotaControl{set(id, "requests.rate", "7")})
		if len(suspended) != 1 || !strings.Contains(suspended[0].Why, "no node of the quota trees is called "+id) {
			t.Errorf("%s: %+v", id, suspended)
		}
	}
}

// With and without keys at a time a provider's name would have two meanings; and what has too long a
// name could not be named by a call.
func TestProviderWithKeysAndWithout(t *testing.T) {
	long := strings.Repeat("k", 128-len("openai@"))
	if _, err := Parse([]byte("providers: [{provider: openai, key: "+long+"}]"), "quotas.yaml"); err != nil {
		t.Error(err)
	}
	if _, err := Parse([]byte("providers: [{provider: openai, key: k"+long+"}]"), "quotas.yaml"); err == nil ||
		!strings.Contains(err.Error(), "at most 127 bytes together") {
		t.Errorf("no call could name it: %v", err)
	}
	_, err := Parse([]byte("providers:\n  - {provider: openai, key: b}\n  - {provider: openai}\n"), "quotas.yaml")
	if err == nil || !strings.Contains(err.Error(), "quotas.yaml:3:") ||
		!strings.Contains(err.Error(), "give this entry a key, too") {
		t.Errorf("%v", err)
	}
}
