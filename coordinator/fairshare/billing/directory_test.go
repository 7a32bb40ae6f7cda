package billing

import (
	"testing"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare/estimates"
)

// trees are a pool with a group in a group, of which each has an agent; and a provider with two keys.
// Both groups call openai unless they say otherwise.
func trees() *coordinator.Quotas {
	node := func(id, name string, kind coordinator.QuotaKind, parent int, provider string) coordinator.QuotaNode {
		return coordinator.QuotaNode{ID: id, Name: name, Kind: kind, Parent: parent, Provider: provider, Weight: 1}
	}
	return &coordinator.Quotas{
		Nodes: []coordinator.QuotaNode{
			node("pool", "pool", coordinator.QuotaPool, -1, ""),
			node("pool/top", "top", coordinator.QuotaGroup, 0, "openai"),
			node("pool/top/team", "team", coordinator.QuotaGroup, 1, ""),
			node("pool/top/team/a1", "a1", coordinator.QuotaAgent, 2, ""),
			node("openai@k1", "openai@k1", coordinator.QuotaPool, -1, "openai@k1"),
			node("openai@k1/gpt", "gpt", coordinator.QuotaModel, 4, "openai@k1"),
			node("openai@k2", "openai@k2", coordinator.QuotaPool, -1, "openai@k2"),
		},
		Prices: []coordinator.Price{{Provider: "openai", PerRequest: 7}},
	}
}

// Which quota a call takes, at which provider, and what of it is a guess, follows from names alone.
func TestDirectoryForCall(t *testing.T) {
	d := NewDirectory(trees())
	for name, c := range map[string]struct {
		call     coordinator.Call
		group    string
		provider string // of the pool
		pool     string
		own      bool
	}{
		"names nothing: its group's provider, by the first key": {coordinator.Call{Agent: "a1"}, "team", "openai@k1",
			"openai@k1", true},
		"speaks for itself": {coordinator.Call{Agent: "a1", Group: "team", OwnOnly: true}, "team",
			"openai@k1", "openai@k1", true},
		"the group above is not its own": {coordinator.Call{Agent: "a1", Group: "top", OwnOnly: true}, "top", "openai@k1",
			"openai@k1", false},
		"nor is one that it is not listed": {coordinator.Call{Agent: "stranger", Group: "team", OwnOnly: true}, "team",
			"openai@k1", "openai@k1", false},
		"a stranger without a group": {coordinator.Call{Agent: "stranger", OwnOnly: true}, "", "", "", true},
		"a gateway names any": {coordinator.Call{Agent: "a1", Group: "top"}, "top", "openai@k1", "openai@k1",
			true},
		"a model of the first key": {coordinator.Call{Usage: coordinator.Usage{Provider: "openai", Model: "gpt"}},
			"", "openai@k1", "openai@k1/gpt", true},
		"another key": {coordinator.Call{Usage: coordinator.Usage{Provider: "openai@k2", Model: "gpt"}},
			"", "openai@k2", "openai@k2", true},
		"a provider that is not listed": {coordinator.Call{Agent: "a1", Usage: coordinator.Usage{Provider: "lab"}},
			"team", "", "", true},
		"a group that is not listed either": {coordinator.Call{Group: "nobody"}, "nobody", "", "", true},
	} {
		charge, _, own := d.ForCall(&c.call, estimates.New())
		if own != c.own || charge.Group != c.group || d.ProviderOf(&charge) != c.provider || d.PoolOf(&charge) != c.pool {
			t.Errorf("%s: group %q, pool %q of %q, own %v; want %q, %q of %q, %v",
				name, charge.Group, d.PoolOf(&charge), d.ProviderOf(&charge), own, c.group, c.pool, c.provider, c.own)
		}
	}
}

// What is not stated is guessed, and marked as that; what is exact is not.
func TestDirectoryMarksGuesses(t *testing.T) {
	d := NewDirectory(trees())
	const tokens = 1<<coordinator.DimOutputTokens | 1<<coordinator.DimTotalTokens | 1<<coordinator.DimCost
	u := coordinator.Usage{Provider: "openai", InputTokens: 100}
	charge, guessed, _ := d.ForCall(&coordinator.Call{Op: coordinator.CallReserve, Usage: u, Seats: 2}, estimates.New())
	// 100 in, 512 assumed out; a request of 7 micro-USD; 2 seats
	if want := (coordinator.Amounts{1, 100, estimates.DefaultOutput, 100 + estimates.DefaultOutput, 7,
		2}); charge.Amounts != want ||
		guessed.Of != tokens {
		t.Errorf("%v, guessed %06b; want %v, %06b", charge.Amounts, guessed, want, tokens)
	}
	charge, guessed, _ = d.ForCall(&coordinator.Call{Op: coordinator.CallConsume, Usage: u, Meant: coordinator.UsageExact,
		Seats: 2}, estimates.New())
	if want := (coordinator.Amounts{1, 100, 0, 100, 7, 0}); charge.Amounts != want || guessed.Of != 0 {
		t.Errorf("exactly: %v, guessed %06b; want %v", charge.Amounts, guessed, want)
	}
}

// A directory without quotas lists no group, and refuses none.
func TestDirectoryWithoutQuotas(t *testing.T) {
	d := NewDirectory(nil)
	charge, _, own := d.ForCall(&coordinator.Call{Agent: "a1", Usage: coordinator.Usage{Provider: "openai"}},
		estimates.New())
	if p := d.PathOf(&charge); !p.Empty() || !own || d.ProviderOf(&charge) != "" {
		t.Errorf("%+v, own %v", charge, own)
	}
}
