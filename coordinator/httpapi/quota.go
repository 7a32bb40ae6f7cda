package httpapi

import (
	"context"
	"errors"
	"net/http"

	"taskbus/coordinator"
	"taskbus/coordinator/httpapi/internal/web"
	"taskbus/coordinator/pattern"
	"taskbus/coordinator/view"
	"taskbus/messages"
)

// The limits of /v1/quota.
const (
	DefaultQuotaLimit = 1000
	MaxQuotaLimit     = 100_000
)

// ErrNoQuotas says that there is no quotas.yaml; ErrNoQuota that it has nothing of that id.
var (
	ErrNoQuotas = errors.New("no quotas are configured")
	ErrNoQuota  = errors.New("no such quota")
)

// nodePattern is what ids of nodes look like: up to 8 names joined by "/".
var nodePattern = pattern.New(`^[A-Za-z0-9][A-Za-z0-9._:@/+-]*$`)

// maxNodeID is the longest id of a node, in bytes: 8 names of 128 and what joins them.
const maxNodeID = 8*128 + 7

// ValidNodeID reports whether the text may be the id of a node.
func ValidNodeID(id string) bool { return len(id) <= maxNodeID && nodePattern.MatchString(id) }

// validProvider reports whether the text may be the name of a provider, or of one of its keys.
func validProvider(name string) bool {
	provider, key := coordinator.CutPool(name)
	return messages.ValidID(provider) && (provider == name || messages.ValidID(key))
}

// quotas answers /v1/quota.
func (a *api) quotas(w http.ResponseWriter, r *http.Request) {
	given, err := web.Parameters(r.URL.RawQuery, "limit", "after")
	limit := 0
	if err == nil {
		text, ok := given["limit"]
		limit, err = web.Limit(text, ok, DefaultQuotaLimit, MaxQuotaLimit)
	}
	if err != nil {
		web.BadQuery(w, err)
		return
	}
	if after := given["after"]; after != "" && !ValidNodeID(after) {
		web.BadQuery(w, errors.New("after must be the id of a node: next of the page before"))
		return
	}
	kind := a.gates.reads
	if limit > DefaultQuotaLimit {
		kind = a.gates.larges
	}
	kind.few(func(w http.ResponseWriter, r *http.Request) {
		a.quotaPage(w, r, view.QuotaSelection{Limit: limit, After: given["after"]})
	})(w, r)
}

func (a *api) quotaPage(w http.ResponseWriter, r *http.Request, of view.QuotaSelection) {
	ctx, cancel := context.WithTimeout(r.Context(), statusTimeout)
	defer cancel()
	q, err := a.src.Quotas(ctx, of)
	if err != nil && !errors.Is(err, ErrNoQuotas) {
		quotaProblem(w, of.After, err)
		return
	}
	q.Nodes, q.Groups = present(q.Nodes), present(q.Groups)
	web.Answer(w, http.StatusOK, q)
}

// quotaOf answers for one thing of an id. what is its kind for people; selecting turns the id
// into a question, shape the nodes found into the answer.
func (a *api) quotaOf(what string, valid func(string) bool, selecting func(id string) view.QuotaSelection,
	shape func(id string, q *view.Quotas) (any, bool)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		id := r.PathValue("id")
		if !valid(id) {
			web.Problem(w, http.StatusBadRequest, "Not an id", "This is not the id of "+what+"; GET /v1/quota lists them.")
			return
		}
		selection := selecting(id)
		selection.Limit = MaxQuotaLimit
		ctx, cancel := context.WithTimeout(r.Context(), statusTimeout)
		defer cancel()
		q, err := a.src.Quotas(ctx, selection)
		if err == nil {
			if found, ok := shape(id, &q); ok {
				web.Answer(w, http.StatusOK, found)
				return
			}
			err = ErrNoQuota
		}
		quotaProblem(w, what+" "+id, err)
	}
}

// quotaProblem answers a question about quotas that has no other answer.
func quotaProblem(w http.ResponseWriter, what string, err error) {
	switch {
	case errors.Is(err, ErrNoQuotas):
		web.Problem(w, http.StatusNotFound, "No quotas",
			"This coordinator has no quotas.yaml, so that nothing is limited. docs/quotas.md says how to write one.")
	case errors.Is(err, ErrNoQuota):
		web.Problem(w, http.StatusNotFound, "Unknown quota", "There is no quota of "+what+
			" in quotas.yaml. GET /v1/quota lists all of them.")
	default:
		web.NotAvailable(w, "Quotas not available", "Reading the quotas", err)
	}
}

func (a *api) quotaNode() http.HandlerFunc {
	return a.quotaOf("a node", ValidNodeID,
		func(id string) view.QuotaSelection { return view.QuotaSelection{Node: id} },
		func(_ string, q *view.Quotas) (any, bool) {
			if len(q.Nodes) == 0 {
				return nil, false
			}
			return q.Nodes[0], true
		})
}

func (a *api) quotaProvider() http.HandlerFunc {
	return a.quotaOf("a provider", validProvider,
		func(id string) view.QuotaSelection { return view.QuotaSelection{Provider: id} },
		func(id string, q *view.Quotas) (any, bool) {
			return view.QuotaProvider{ID: id, Nodes: q.Nodes}, len(q.Nodes) > 0
		})
}

func (a *api) quotaGroup() http.HandlerFunc {
	return a.quotaOf("a group", messages.ValidID,
		func(id string) view.QuotaSelection { return view.QuotaSelection{Group: id} },
		func(id string, q *view.Quotas) (any, bool) { return q.Group(id) })
}

func (a *api) quotaAgent() http.HandlerFunc {
	return a.quotaOf("an agent", messages.ValidID,
		func(id string) view.QuotaSelection { return view.QuotaSelection{Agent: id} },
		func(id string, q *view.Quotas) (any, bool) { return q.Agent(id) })
}
