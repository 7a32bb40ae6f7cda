package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"time"

	"taskbus/coordinator/httpapi/internal/web"
	"taskbus/coordinator/view"
	"taskbus/messages"
)

// Errors of changes to quotas.
var (
	// ErrNoControl says that no change of this id stands.
	ErrNoControl = errors.New("no such change")
	// ErrOfFile says that a group or agent is listed in quotas.yaml, and goes with that alone.
	ErrOfFile = errors.New("it is listed in quotas.yaml")
)

// BadControl is a change that does not fit.
type BadControl struct {
	// Why says what is wrong, in a sentence without its end.
	Why string
}

func (b *BadControl) Error() string { return b.Why }

// The bounds of a change, in bytes but for MaxReason.
const (
	maxControlValues = 32
	maxControlText   = 128
	maxControlFor    = 366 * 24 * time.Hour
)

// controls answers GET /v1/quota/controls.
func (a *api) controls() http.HandlerFunc {
	return asking(a.src.QuotaControls, "Changes not available", "Reading the changes to the quotas",
		func(c *view.QuotaControls) { c.Controls = present(c.Controls) })
}

// control answers POST /v1/quota/controls.
func (a *api) control(w http.ResponseWriter, r *http.Request) {
	if !web.Unasked(w, r) {
		return
	}
	q, ok := readChange(w, r)
	if !ok {
		return
	}
	changed, err := a.src.ControlQuota(r.Context(), q)
	quotaChanged(w, "node "+q.Node, changed, err)
}

// readChange reads the body, or answers the request.
func readChange(w http.ResponseWriter, r *http.Request) (q view.QuotaChange, ok bool) {
	const want = `such as {"node": "pool/team-a", "set": {"weight": 5}, "reason": "..."}, or {"node": "pool/team-a", ` +
		`"boost": {"total_tokens": "+50%"}, "for_seconds": 7200}, or {"node": "pool/team-a", "correct": {"total_tokens": ` +
		`-1900}}`
	var node, until, by, reason *string
	var set, boost, correct []view.QuotaValue
	var seconds *float64
	var preview *bool
	if !web.ReadBody(w, r, want, web.Truth("preview", &preview),
		web.Text("node", &node), valuesMember("set", &set), valuesMember("boost", &boost),
		valuesMember("correct", &correct),
		web.Text("until", &until), web.Text("by", &by), web.Text("reason", &reason),
		web.Number("for_seconds", &seconds, true, func(n float64) bool { return n >= 1 && n <= maxControlFor.Seconds() },
			"a whole number of seconds, from 1 to 31622400")) {
		return q, false
	}
	fault := ""
	switch {
	case node == nil:
		fault = "node is missing"
	case !ValidNodeID(*node):
		fault = "node is not the id of a node; GET /v1/quota lists them"
	case min(len(set), 1)+min(len(boost), 1)+min(len(correct), 1) != 1:
		fault = "one of set, boost and correct must say what is to change"
	case len(correct) > 0 && (until != nil || seconds != nil):
		fault = "what is corrected stays so: leave out until and for_seconds"
	case len(correct) > 0 && preview != nil:
		fault = "a correction has no preview"
	case until != nil && seconds != nil:
		fault = "until and for_seconds both say how long; give one"
	}
	if fault == "" {
		q = view.QuotaChange{Node: *node, Values: set, Preview: preview != nil && *preview}
		if len(boost) > 0 {
			q.Values, q.Boost = boost, true
		}
		if len(correct) > 0 {
			q.Values, q.Correct = correct, true
		}
		if seconds != nil {
			q.For = time.Duration(*seconds) * time.Second
		}
		if until != nil {
			var err error
			// A time that is zero would stand for none: what was to end would stand for ever.
			if q.Until, err = time.Parse(time.RFC3339, *until); err != nil || q.Until.IsZero() {
				fault = "until must be a time such as 2026-12-01T18:00:00Z"
			}
		}
		q.By, q.Reason, fault = whoAndWhy(by, reason, fault)
	}
	if fault != "" {
		web.BadBody(w, want+"; "+fault)
		return q, false
	}
	return q, true
}

// whoAndWhy bounds what people say of a change.
func whoAndWhy(by, reason *string, fault string) (who, why, wrong string) {
	if by != nil {
		who = messages.Clean(*by, maxControlText)
	}
	if reason != nil {
		if why = messages.Clean(*reason, MaxReason*4); len(why) > MaxReason*4 || len([]rune(why)) > MaxReason {
			return who, "", "reason is too long"
		}
	}
	return who, why, fault
}

// valuesMember is an object of settings: texts and numbers, which are taken as they are written.
func valuesMember(name string, into *[]view.QuotaValue) web.Member {
	const must = `: it must be an object such as {"weight": 5, "total_tokens.amount": 2000000}`
	return web.Member{Name: name, Read: func(value json.RawMessage) string {
		d := json.NewDecoder(bytes.NewReader(value))
		d.UseNumber() // 0.10 is taken as it is written
		read, fault := web.Value(d, 1)
		all, is := read.(map[string]any)
		switch {
		case fault != "":
			return "cannot be taken: " + fault
		case is && len(all) == 0:
			return `is empty: give at least one setting, such as {"weight": 5}`
		case !is:
			return "is " + web.Kind(value) + must
		case len(all) > maxControlValues:
			return "has too many settings; send fewer at a time"
		}
		for _, key := range slices.Sorted(maps.Keys(all)) {
			var text string
			switch v := all[key].(type) {
			case string:
				text = v
			case json.Number:
				text = v.String()
			default:
				return "has a value that is neither text nor a number" + must
			}
			if len(key) > maxControlText || len(text) > maxControlText ||
				messages.Clean(key+text, 2*maxControlText) != key+text {
				return "has a setting that is too long, or not plain text" + must
			}
			*into = append(*into, view.QuotaValue{Key: key, Value: text})
		}
		return ""
	}}
}

// uncontrol answers DELETE /v1/quota/controls/{id}.
func (a *api) uncontrol(w http.ResponseWriter, r *http.Request, id string) {
	if !web.Unasked(w, r) || !web.ReadBody(w, r, "nothing or {}") {
		return
	}
	changed, err := a.src.UncontrolQuota(r.Context(), id)
	quotaChanged(w, "change "+id, changed, err)
}

// register answers PUT /v1/quota/groups/{id} and agents/{id}.
func (a *api) register(agent bool) func(http.ResponseWriter, *http.Request, string) {
	return func(w http.ResponseWriter, r *http.Request, id string) {
		given, err := web.Parameters(r.URL.RawQuery, "by", "reason")
		if err != nil {
			web.BadQuery(w, err)
			return
		}
		by, reason := given["by"], given["reason"]
		q := view.QuotaEntry{Agent: agent, ID: id}
		var fault string
		if q.By, q.Reason, fault = whoAndWhy(&by, &reason, ""); fault != "" {
			web.BadQuery(w, errors.New(fault))
			return
		}
		var ok bool
		if q.Entry, ok = readEntry(w, r); !ok {
			return
		}
		changed, err := a.src.RegisterQuota(r.Context(), q)
		quotaChanged(w, entryName(agent)+" "+id, changed, err)
	}
}

// unregister answers DELETE of the same.
func (a *api) unregister(agent bool) func(http.ResponseWriter, *http.Request, string) {
	return func(w http.ResponseWriter, r *http.Request, id string) {
		if !web.Unasked(w, r) || !web.ReadBody(w, r, "nothing or {}") {
			return
		}
		changed, err := a.src.UnregisterQuota(r.Context(), agent, id)
		quotaChanged(w, entryName(agent)+" "+id, changed, err)
	}
}

func entryName(agent bool) string {
	if agent {
		return view.KindAgent
	}
	return view.KindGroup
}

// quotaChanged answers a change of what.
func quotaChanged(w http.ResponseWriter, what string, changed view.QuotaChanged, err error) {
	var bad *BadControl
	switch {
	case err == nil:
		changed.Controls, changed.Removed, changed.Nodes = present(changed.Controls), present(changed.Removed),
			present(changed.Nodes)
		web.Answer(w, http.StatusOK, changed)
	case errors.As(err, &bad):
		web.Problem(w, http.StatusUnprocessableEntity, "Does not fit", "Nothing was changed: "+
			messages.Clean(bad.Why, messages.MaxText)+".")
	case errors.Is(err, ErrOfFile):
		web.Problem(w, http.StatusConflict, "Listed in quotas.yaml", "Nothing was changed: "+what+
			" is listed in quotas.yaml, and can only be removed there.")
	case errors.Is(err, ErrNoControl):
		web.Problem(w, http.StatusNotFound, "Unknown change", "Nothing was changed: nothing stands that has set up "+what+
			". GET /v1/quota/controls lists what does.")
	case errors.Is(err, ErrNoQuotas):
		quotaProblem(w, what, err)
	default:
		web.NotDone(w, err)
	}
}
