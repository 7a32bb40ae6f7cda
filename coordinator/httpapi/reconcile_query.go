package httpapi

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"taskbus/coordinator/httpapi/internal/web"
	"taskbus/coordinator/pattern"
	"taskbus/coordinator/usage"
)

// billQuestion is what the parameters of /v1/quota/reconcile say.
type billQuestion struct {
	by        usage.By
	from, to  string
	options   usage.BillOptions
	tolerance usage.Tolerance
}

// DefaultTolerance is by how much a bill may differ if nothing else is said: 1 percent, and a
// cent.
var DefaultTolerance = usage.Tolerance{Percent: 1, Cost: 10_000}

var dollarTolerance = pattern.New(`^[0-9]{1,6}(\.[0-9]{1,6})?$`)

func billQuery(query string) (*billQuestion, error) {
	given, err := web.Parameters(query, "by", "from", "to", "provider", "columns", "models", "agents", "groups",
		"tolerance_percent", "tolerance_tokens", "tolerance_requests", "tolerance_usd")
	if err != nil {
		return nil, err
	}
	by, err := historyBy(given)
	if err != nil {
		return nil, err
	}
	q := &billQuestion{by: by, tolerance: DefaultTolerance}
	narrow := usage.Query{}
	if err := historyQuery(map[string]string{"from": given["from"], "to": given["to"], "provider": given["provider"]},
		&narrow); err != nil {
		return nil, err
	}
	q.from, q.to, q.options.Provider = narrow.From, narrow.To, narrow.Provider
	for name, into := range map[string]*map[string]string{"columns": &q.options.Columns, "models": &q.options.Models,
		"agents": &q.options.Agents, "groups": &q.options.Groups} {
		if *into, err = pairs(name, given[name]); err != nil {
			return nil, err
		}
	}
	for column := range q.options.Columns { // order does not matter: any one is told
		if !usage.KnownColumn(column) {
			return nil,
				errors.New(
					"columns names a column that there is not; known are date, provider, model, group, agent, requests, " +
						"input_tokens, output_tokens, total_tokens and cost_usd")
		}
	}
	return q, q.tolerate(given)
}

// pairs reads a parameter such as "a=b,c=d", of which one with a comma is quoted as in CSV:
// "\"Acme, Inc=team-a\",c=d". Names of a bill may be any; what they are called here has no "=", nor have
// the names of columns.
func pairs(name, text string) (map[string]string, error) {
	if text == "" {
		return nil, nil
	}
	list := csv.NewReader(strings.NewReader(text))
	list.LazyQuotes = true
	each, err := list.Read()
	if _, more := list.Read(); err != nil || more != io.EOF {
		return nil, fmt.Errorf("%s must be pairs such as a=b,c=d in one line", name)
	}
	all := make(map[string]string)
	for _, pair := range each {
		at := strings.LastIndexByte(pair, '=')
		if name == "columns" {
			at = strings.IndexByte(pair, '=')
		}
		if at <= 0 || at == len(pair)-1 {
			return nil, fmt.Errorf("%s must be pairs such as a=b,c=d", name)
		}
		from, to := pair[:at], pair[at+1:]
		if _, twice := all[from]; twice {
			return nil, fmt.Errorf("%s says twice what one is to be", name)
		}
		all[from] = to
	}
	return all, nil
}

func (q *billQuestion) tolerate(given map[string]string) error {
	if text, ok := given["tolerance_percent"]; ok {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || !(v >= 0 && v <= 100) {
			return errors.New("tolerance_percent must be a number from 0 to 100")
		}
		q.tolerance.Percent = v
	}
	for name, into := range map[string]*int64{"tolerance_tokens": &q.tolerance.Tokens,
		"tolerance_requests": &q.tolerance.Requests} {
		if text, ok := given[name]; ok {
			v, err := strconv.ParseInt(text, 10, 64)
			if err != nil || v < 0 || v > usage.Most {
				return fmt.Errorf("%s must be a whole number from 0 to %d", name, usage.Most)
			}
			*into = v
		}
	}
	if text, ok := given["tolerance_usd"]; ok {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || !dollarTolerance.MatchString(text) {
			return errors.New("tolerance_usd must be US dollars such as 0.05, below 1,000,000")
		}
		q.tolerance.Cost = int64(v*1e6 + 0.5)
	}
	return nil
}
