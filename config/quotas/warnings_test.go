package quotas

import "testing"

func TestWarnings(t *testing.T) {
	const money = "groups: [{id: a, limits: {cost_usd: {amount: 5, per: day}}}]\n"
	const priced = "prices: [{provider: x, model: m, per_request: 1}]\n"
	for name, c := range map[string]struct{ file, want string }{
		"no prices": {money,
			"cost_usd is limited, and there are no prices: calls and tasks of an LLM that do not state what they cost are " +
				"refused (unpriced: refuse); list prices"},
		"no prices, let by": {money + "unpriced: warn\n",
			"cost_usd is limited, and there are no prices: only the cost that tasks and results state themselves counts " +
				"(unpriced: warn); list prices"},
		"one price for all": {money + "unpriced: price\nunpriced_price: {per_request: 1}\n", ""},
		"prices":            {money + priced, ""},
		"weights of nothing": {"groups: [{id: a, weight: 3}, {id: b}]\n",
			"nothing has a limit, so that the weight of pool/a divides none: weights only say whose task goes first while " +
				"agents are busy"},
		"no weights": {"groups: [{id: a}, {id: b}]\n", ""},
		"of a provider": {
			"providers: [{provider: x, limits: {requests: {rate: 1, per: second}}}]\ngroups: [{id: a, weight: 3}, {id: b}]\n",
			""},
		"day above week": {"groups: [{id: a, limits: {requests: [{amount: 5000, per: day}, {amount: 2000, per: week}]}}]\n",
			"the limit of pool/a, requests 5000 per day, bounds nothing: 2000 per week of pool/a are used up before"},
		"both above the pool's": {
			"pool: {limits: {requests: {amount: 500, per: month}}}\ngroups: [{id: a, limits: {requests: [{amount: 5000, " +
				"per: day}, {amount: 2000, per: week}]}}]\n",
			"the limit of pool/a, requests 5000 per day, bounds nothing: 2000 per week of pool/a are used up before; so it " +
				"is with 1 more"},
		"a week in two months": {
			"pool: {limits: {requests: {amount: 500, per: month}}}\ngroups: [{id: a, limits: {requests: {amount: 999, per: " +
				"week}}}]\n", ""},
		"day below week": {
			"groups: [{id: a, limits: {requests: [{amount: 1999, per: day}, {amount: 2000, per: week}]}}]\n", ""},
		"the week's may be borrowed": {
			"pool: {limits: {requests: {amount: 9000, per: week}}}\ngroups: [{id: a, limits: {requests: [{amount: 5000, " +
				"per: day}, {amount: 2000, per: week}]}}]\n", ""},
		"and so much at the most": {
			"pool: {limits: {requests: {amount: 9000, per: week}}}\ngroups: [{id: a, limits: {requests: [{amount: 5000, " +
				"per: day}, {amount: 2000, per: week, borrow: 3000}]}}]\n",
			"the limit of pool/a, requests 5000 per day, bounds nothing: 2000 per week, borrow 3000 of pool/a are used up " +
				"before"},
	} {
		t.Run(name, func(t *testing.T) {
			found := Warnings(mustParse(t, c.file))
			switch {
			case c.want == "" && len(found) == 0:
			case len(found) != 1 || found[0].Text != c.want:
				t.Errorf("%+v, want %q", found, c.want)
			}
		})
	}
}
