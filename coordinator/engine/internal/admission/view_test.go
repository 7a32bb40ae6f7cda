package admission

import (
	"reflect"
	"testing"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
	"taskbus/coordinator/fairshare/fairqueue"
	"taskbus/coordinator/llmcalls"
)

// waits is how many tasks wait in a tenant queue, two of them for quota.
type waits map[int]int

func (w waits) ByLeaf(leaves int) (all, parked []int) {
	all, parked = make([]int, leaves), make([]int, leaves)
	for leaf, n := range w {
		all[leaf], parked[leaf] = n, 2
	}
	return all, parked
}

// reader of quotas at the beginning.
func reader(q *Quotas, w waits) Reader {
	calls := llmcalls.New(q.Ledger, q.Estimator, q.Waits)
	return Reader{Quotas: q, Calls: &calls, Now: epoch, At: epoch, Waiting: w}
}

// TestSnapshot: team x of weight 3 waits, y of weight 1 had all of the cost of late, z neither.
func TestSnapshot(t *testing.T) {
	weight := func(w int64) func(*coordinator.QuotaNode) {
		return func(n *coordinator.QuotaNode) { n.Weight = w }
	}
	q := treeOf(node(coordinator.QuotaPool, "pool", -1), node(coordinator.QuotaGroup, "z", 0),
		node(coordinator.QuotaGroup, "y", 0), node(coordinator.QuotaGroup, "x", 0, weight(3)))
	task := taking("t", 100)
	task.Group = "y"
	h := q.Hold(task)
	q.Reserve(epoch, task, 1, h, "a")
	q.End(epoch, h, "build", &Dispatch{Result: &coordinator.Result{Usage: &coordinator.Usage{InputTokens: 49,
		OutputTokens: 1}}})
	q.Refused[fairshare.LimitBudget][coordinator.DimRequests] = 7
	r := reader(q, waits{q.Shares.Leaf("x"): 5})
	groups := func(n *coordinator.QuotaNode, _ string) bool { return n.Kind == coordinator.QuotaGroup }
	s := r.Snapshot(2, groups)
	// 3 of the weights 3 + 1 of those that wait or had a part.
	want := []Group{
		{Name: fairqueue.OtherGroup}, {Name: "x", Waiting: 5, Parked: 2, Target: 0.75},
		{Name: "y", Share: 1, Target: 0.25}, {Name: "z"},
	}
	if !reflect.DeepEqual(s.Groups, want) {
		t.Errorf("groups %+v, want %+v", s.Groups, want)
	}
	if !s.Installed || len(s.Nodes) != 2 || s.All != 3 || s.Nodes[0].ID != "pool/z" {
		t.Errorf("%d of %d nodes: %+v", len(s.Nodes), s.All, s.Nodes)
	}
	// 99 tokens in and 1 out cost 99 + 2·1 = 101; a rate is of ten seconds at least.
	if s.Rate != 10.1 || s.Reserved != 100 || s.Used != 50 || s.Refused != q.Refused {
		t.Errorf("rate %v, %d tokens reserved, %d used, refused %v", s.Rate, s.Reserved, s.Used, s.Refused)
	}
}

// TestReader: nodes by pages and by their IDs, and what there is without quotas.
func TestReader(t *testing.T) {
	r := reader(newTeam(t), nil)
	if !r.Installed() || r.Missing() || len(r.Snapshot(9, nil).Nodes) != 2 {
		t.Error("there is a pool and a group")
	}
	first, more, ok := r.Page("", 1)
	if !ok || !more || len(first.Nodes) != 1 || first.Nodes[0].ID != "pool" || first.All != 2 || len(first.Groups) != 2 {
		t.Errorf("the first page: %+v, more %v", first, more)
	}
	if last, more, ok := r.Page("pool", 1); !ok || more || len(last.Nodes) != 1 || last.Nodes[0].ID != "pool/team" ||
		len(last.Groups) != 0 {
		t.Errorf("the last page: %+v, more %v", last, more)
	}
	if none, _, ok := r.Page("stranger", 1); ok || !none.Installed {
		t.Error("a page behind a node that there is not")
	}
	ids := r.IDs(func(n *coordinator.QuotaNode, _ string) bool { return n.Kind == coordinator.QuotaGroup })
	if nodes := r.Nodes(append(ids, "stranger")); len(ids) != 1 || len(nodes) != 1 || nodes[0].ID != "pool/team" {
		t.Errorf("%v: %+v", ids, nodes)
	}
	none := reader(NewQuotas(testTasksInOrder), nil)
	if _, ok := none.Explain(&Question{}); ok || none.Installed() || none.Missing() || none.Snapshot(9, nil).Installed {
		t.Error("something is read where there are no quotas")
	}
	if s, more, ok := none.Page("", 9); s.Installed || more || !ok {
		t.Error("a page where there are no quotas")
	}
}

// TestExplain: what would become of a task of so many tokens where a team may use 1000 a day.
func TestExplain(t *testing.T) {
	q := newTeam(t)
	r := reader(q, nil)
	for _, c := range []struct {
		group  string
		tokens float64
		known  bool
		ok     bool
		nodes  int
	}{
		{"team", 500, true, true, 2}, {"team", 1500, true, false, 2},
		{"stranger", 1500, false, true, 1}, {"", 1500, true, true, 1},
	} {
		a, ok := r.Explain(&Question{Group: c.group, Agent: "a", Usage: coordinator.Usage{
			InputTokens: c.tokens - 1, OutputTokens: 1}})
		if !ok || a.Known != c.known || (a.Lack == "") != c.ok || a.Explanation.Verdict.OK != c.ok ||
			len(a.Nodes) != c.nodes || a.Amounts[coordinator.DimTotalTokens] != int64(c.tokens) {
			t.Errorf("%+v: %+v", c, a)
		}
	}
	if free := newTeam(t); !same(q, free) {
		t.Error("a question has changed something")
	}
}

// TestExplainRoutes: of two models one has quota, and the question names it with the scores of both.
func TestExplainRoutes(t *testing.T) {
	q := treeOf(node(coordinator.QuotaPool, "pool", -1), node(coordinator.QuotaGroup, "team", 0),
		node(coordinator.QuotaPool, "lab", -1, provider("lab"), perDay(100)),
		node(coordinator.QuotaPool, "openai", -1, provider("openai"), perDay(1000)))
	ask := func(tokens float64) Answer {
		a, _ := reader(q, nil).Explain(&Question{Group: "team", Usage: coordinator.Usage{InputTokens: tokens - 1,
			OutputTokens: 1}, Routes: []coordinator.Service{{Provider: "lab"}, {Provider: "openai"}}})
		return a
	}
	if a := ask(500); a.Provider != "openai" || a.Lack != "" || len(a.Routes) != 2 || !a.Known || a.Group != "team" ||
		a.Weights != q.Ledger.RouteWeights() {
		t.Errorf("%+v", a)
	}
	if a := ask(5000); a.Lack == "" || a.Explanation.Verdict.OK || len(a.Routes) != 2 {
		t.Errorf("none of them has quota: %+v", a)
	}
}
