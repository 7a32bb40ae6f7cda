package billing

import (
	"math"
	"math/bits"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare/arith"
)

// perMillion is how many tokens a price of tokens is for.
const perMillion = 1_000_000

// service is what is paid for: an operation (a task type) with a model of a provider.
// In a price an empty model or operation stands for all of them.
type service struct{ provider, model, operation string }

// tariff is a price in micro-USD, at least 0 each: for a request, and for a million tokens.
type tariff struct {
	request       int64
	input, output uint64
}

// prices is the price list of quotas.yaml. It is immutable; reading it does not allocate.
type prices struct {
	of map[service]tariff
	// only is the provider that alone has a price for a model, by model; empty: several have.
	only map[string]string
	// other is what a model costs that has no price; nil: nothing.
	other *tariff
}

// newPrices makes it of a list in any order. Of two prices for the same the first counts; a
// negative one counts as 0.
func newPrices(list []coordinator.Price) *prices {
	p := &prices{of: make(map[service]tariff, len(list)), only: make(map[string]string)}
	for _, price := range list {
		if price.Model != "" {
			if provider, named := p.only[price.Model]; !named {
				p.only[price.Model] = price.Provider
			} else if provider != price.Provider {
				p.only[price.Model] = ""
			}
		}
		key := service{price.Provider, price.Model, price.Operation}
		if _, twice := p.of[key]; !twice {
			p.of[key] = tariffOf(&price)
		}
	}
	return p
}

func tariffOf(p *coordinator.Price) tariff {
	return tariff{max(p.PerRequest, 0), notBelow0(p.InputPerMillion), notBelow0(p.OutputPerMillion)}
}

// pricesOf returns those of quotas, nil for none.
func pricesOf(q *coordinator.Quotas) *prices {
	if q == nil {
		return newPrices(nil)
	}
	p := newPrices(q.Prices)
	if q.Unpriced == coordinator.UnpricedCharge {
		other := tariffOf(&q.UnpricedPrice)
		p.other = &other
	}
	return p
}

// lacks reports whether something that takes so many tokens has no price: it names a model, or takes
// tokens, and neither the list nor its own usage says what that costs.
func (p *prices) lacks(s service, u *coordinator.Usage, tokens int64) bool {
	s = s.of(u)
	if u != nil && u.CostUSD > 0 || s.provider == "" && s.model == "" && tokens == 0 {
		return false
	}
	_, known := p.find(s)
	return !known
}

// find returns the most specific price there is. A model's own goes before an operation's: a
// model without a price for the operation still has one. All keys of a provider cost the same. A model
// that is named without its provider is that of the only provider that has a price for one of that name.
func (p *prices) find(s service) (tariff, bool) {
	if s.provider == "" {
		s.provider = p.only[s.model]
	}
	s.provider = coordinator.ProviderOfPool(s.provider)
	for _, key := range [...]service{
		s,
		{s.provider, s.model, ""},
		{s.provider, "", s.operation},
		{s.provider, "", ""},
	} {
		if t, known := p.of[key]; known {
			return t, true
		}
	}
	return tariff{}, false
}

// cost returns the price of that many requests with in input and out output tokens, rounded up to
// a whole micro-USD once, after adding; math.MaxInt64 for more than that. Amounts below 0
// count as 0. known is false, and the cost 0, where neither the price list nor the price of all others
// says anything.
func (p *prices) cost(provider, model, operation string, requests, in, out int64) (microUSD int64, known bool) {
	t, known := p.find(service{provider, model, operation})
	switch {
	case known:
	case p.other == nil || provider == "" && model == "" && in <= 0 && out <= 0: // of no model at all
		return 0, false
	default:
		t = *p.other
	}
	// in·price + out·price < 2·(2⁶³)² = 2¹²⁷: it fits two words, with room for rounding up.
	inHigh, inLow := bits.Mul64(notBelow0(in), t.input)
	outHigh, outLow := bits.Mul64(notBelow0(out), t.output)
	low, carry := bits.Add64(inLow, outLow, 0)
	high, _ := bits.Add64(inHigh, outHigh, carry)
	low, carry = bits.Add64(low, perMillion-1, 0)
	high += carry
	if high >= perMillion { // the quotient is 2⁶⁴ or more
		return math.MaxInt64, true
	}
	quotient, _ := bits.Div64(high, low, perMillion)
	tokens := int64(min(quotient, math.MaxInt64))
	return arith.Add(tokens, arith.MulDiv(requests, t.request, 1)), true
}

// of returns what u was, or will be, paid for: what u does not say is taken from the other, which
// is what the task's group uses. A model is only taken together with its provider,
// of which it makes no difference whether a key is named with it.
func (s service) of(u *coordinator.Usage) service {
	if u == nil {
		return s
	}
	if u.Provider != "" && coordinator.ProviderOfPool(u.Provider) != coordinator.ProviderOfPool(s.provider) {
		s.provider, s.model = u.Provider, ""
	}
	if u.Model != "" {
		s.model = u.Model
	}
	return s
}

// amountsOf counts a usage, stated or measured, in all dimensions. s is what it was for, as
// far as u does not say so itself. Parts are rounded up to a whole; what is negative or not a
// number counts as 0, what is more than an int64 as math.MaxInt64.
//
// A task is at least one request, also one with a usage that states none and one without a
// usage (nil): nothing that takes the place of a call gets past a limit on calls for free.
//
// The cost is the one stated, if above 0, or else that of the price list; priced is false
// where there is neither, so that a budget in dollars does not bind.
func (p *prices) amountsOf(u *coordinator.Usage, s service, concurrency int64) (a coordinator.Amounts, priced bool) {
	return p.count(u, s, concurrency, 1)
}

// count is amountsOf for what counts as that many requests at least.
func (p *prices) count(u *coordinator.Usage, s service, concurrency, requests int64) (a coordinator.Amounts,
	priced bool) {
	s = s.of(u)
	a[coordinator.DimRequests] = requests
	a[coordinator.DimConcurrency] = max(concurrency, 0)
	if u != nil {
		a[coordinator.DimRequests] = max(wholeUp(u.Requests), requests)
		a[coordinator.DimInputTokens] = wholeUp(u.InputTokens)
		a[coordinator.DimOutputTokens] = wholeUp(u.OutputTokens)
		a[coordinator.DimTotalTokens] = arith.Add(a[coordinator.DimInputTokens], a[coordinator.DimOutputTokens])
		if u.CostUSD > 0 {
			a[coordinator.DimCost] = microUSD(u.CostUSD)
			return a, true
		}
	}
	a[coordinator.DimCost], priced = p.cost(s.provider, s.model, s.operation,
		a[coordinator.DimRequests], a[coordinator.DimInputTokens], a[coordinator.DimOutputTokens])
	return a, priced
}

// microUSD returns a number of dollars in micro-USD, rounded up. What a decimal fraction gains by
// being a float64 is no reason to round: $0.000246 · 10⁶ is 246.00000000000003 in floating
// point, and 246 micro-USD. Reading the decimal and multiplying err by 2⁻⁵³ of it each.
func microUSD(dollars float64) int64 {
	micro := dollars * 1e6
	if nearest := math.Round(micro); math.Abs(micro-nearest) <= micro*0x1p-52 {
		micro = nearest
	}
	return wholeUp(micro)
}

// wholeUp rounds up to a whole number of 0 to math.MaxInt64; NaN is 0.
func wholeUp(x float64) int64 {
	switch {
	case !(x > 0):
		return 0
	case x >= math.MaxInt64: // 2⁶³ as a float64
		return math.MaxInt64
	}
	return int64(math.Ceil(x))
}

func notBelow0(x int64) uint64 { return uint64(max(x, 0)) }
