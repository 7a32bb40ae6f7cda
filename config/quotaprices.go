package config

import (
	"cmp"
	"maps"
	"math/big"
	"slices"

	"taskbus/coordinator"
)

// dollar is the currency in which everything is counted.
const dollar = "USD"

// The largest prices, in the price's own currency, and exchange rates.
const (
	maxPrice    = 1_000_000
	maxExchange = 1_000_000
)

// currencies are what one unit of each is worth in US dollars.
type currencies map[string]*big.Rat

// currencies reads the section `currencies`.
func (d *decoder) currencies(into *currencies) reader {
	return func(p place) {
		*into = make(currencies)
		d.entries(p, "a mapping of currencies to US dollars", func(key, value place) {
			name, ok := d.text(key, currencyPattern, currencyRule)
			if name == dollar {
				d.fault(key, "a US dollar is what the others are counted in; remove it")
				return
			}
			worth := new(big.Rat)
			before := len(d.faults)
			d.exact(worth, maxExchange)(value)
			if worth.Sign() == 0 && len(d.faults) == before {
				d.fault(value, "must be above 0: it is what one %s is worth in US dollars", clip(key.node.Value))
			}
			if ok {
				(*into)[name] = worth
			}
		})
	}
}

// listedPrice is an entry of `prices`.
type listedPrice struct {
	coordinator.Price
	at       place // the entry
	provider place
	currency place // a nil node: US dollars
	// given are its prices, in the order of Price, in the currency.
	given [3]struct {
		price *big.Rat
		at    place
	}
}

// amounts reads the keys that a price has of whatever it is for.
func (l *listedPrice) amounts(d *decoder) readers {
	price := func(i int) reader {
		return func(p place) {
			n := new(big.Rat)
			before := len(d.faults)
			if d.exact(n, maxPrice)(p); len(d.faults) == before {
				l.given[i].price, l.given[i].at = n, p
			}
		}
	}
	return readers{
		"currency":                  l.currency.here,
		"per_request":               price(0),
		"input_per_million_tokens":  price(1),
		"output_per_million_tokens": price(2),
	}
}

// none reports whether nothing of it is given.
func (l *listedPrice) none() bool {
	return l.given[0].price == nil && l.given[1].price == nil && l.given[2].price == nil
}

const noPrice = "gives no price; add per_request, input_per_million_tokens or output_per_million_tokens"

// The words of unpriced, in the order of coordinator.UnpricedRule.
var unpricedWords = []string{"refuse", "warn", "price"}

// unpriced reads what becomes of models without a price. They cost unpriced_price where that is to be.
func (d *decoder) unpriced(f *quotaFile) {
	u, word := &f.unpriced, unpricedWords[0]
	if before := len(d.faults); u.rule.node != nil {
		if oneOf(d, &word, unpricedWords...)(u.rule); len(d.faults) > before {
			return
		}
	}
	f.quotas.Unpriced = coordinator.UnpricedRule(max(0, slices.Index(unpricedWords, word)))
	charged := f.quotas.Unpriced == coordinator.UnpricedCharge
	switch {
	case u.price.node == nil && charged:
		d.fault(u.rule,
			"does not say which price; add unpriced_price, such as {input_per_million_tokens: 10, output_per_million_tokens: 30}")
	case u.price.node == nil:
	case !charged:
		d.fault(u.price, "says nothing without unpriced: price; add that, or remove this")
	default:
		before := len(d.faults)
		u.listed.at = u.price
		d.object(u.price, u.listed.amounts(d))
		if u.listed.none() && len(d.faults) == before {
			d.fault(u.price, noPrice)
		}
		d.later(func() {
			if worth, ok := d.worth(&u.listed, f.currencies); ok {
				d.inDollars(&u.listed, worth)
				f.quotas.UnpricedPrice = u.listed.Price
			}
		})
	}
}

// prices reads the section `prices`.
func (d *decoder) prices(f *quotaFile) reader {
	return func(p place) {
		d.items(p, "prices", func(item place) {
			l := listedPrice{at: item}
			optional := func(into *string, rule string) reader {
				pattern := wordPattern
				if rule == modelRule {
					pattern = modelPattern
				}
				return func(p place) { *into, _ = d.text(p, pattern, rule) }
			}
			before, known := len(d.faults), l.amounts(d)
			known["provider"] = d.name(&l.Provider, &l.provider, idPattern, idRule)
			known["model"], known["operation"] = optional(&l.Model, modelRule), optional(&l.Operation, wordRule)
			d.object(item, known)
			switch {
			case len(d.faults) > before:
			case l.provider.node == nil:
				d.fault(place{item.node, join(item.path, "provider")}, "is missing; say which provider it is the price of")
			case l.none():
				d.fault(item, noPrice)
			default:
				f.prices = append(f.prices, l)
			}
		})
		d.later(func() { d.convert(f) })
	}
}

// convert makes micro-USD of the prices, when all currencies are known.
func (d *decoder) convert(f *quotaFile) {
	type service struct{ provider, model, operation string }
	first := make(map[service]int)
	for i := range f.prices {
		l := &f.prices[i]
		s := service{l.Provider, l.Model, l.Operation}
		if line, twice := first[s]; twice {
			d.fault(l.at, "is a second price for the same as in line %d; remove one of the two", line)
			continue
		}
		first[s] = l.at.node.Line
		worth, ok := d.worth(l, f.currencies)
		if !ok {
			continue
		}
		d.inDollars(l, worth)
		f.quotas.Prices = append(f.quotas.Prices, l.Price)
	}
	slices.SortFunc(f.quotas.Prices, func(a, b coordinator.Price) int {
		general := func(name string) int { // what is for all of them comes after what is for one
			if name == "" {
				return 1
			}
			return 0
		}
		return cmp.Or(
			cmp.Compare(general(a.Model), general(b.Model)), cmp.Compare(general(a.Operation), general(b.Operation)),
			cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.Model, b.Model), cmp.Compare(a.Operation, b.Operation))
	})
}

// inDollars makes micro-USD of what is given of a price.
func (d *decoder) inDollars(l *listedPrice, worth *big.Rat) {
	for i, into := range []*int64{&l.PerRequest, &l.InputPerMillion, &l.OutputPerMillion} {
		g := &l.given[i]
		if g.price == nil {
			continue
		}
		var ok bool
		*into, ok = microUSD(g.price, worth)
		switch {
		case !ok:
			d.fault(g.at, "is more than %d US dollars; lower it", maxAmount/1_000_000)
		case *into == 0 && g.price.Sign() > 0:
			d.fault(g.at, "is less than half a millionth of a US dollar, and would count as nothing; write 0 if that is meant")
		}
	}
}

// worth is what one unit of a price's currency is worth in US dollars.
func (d *decoder) worth(l *listedPrice, all currencies) (*big.Rat, bool) {
	if l.currency.node == nil || isScalar(l.currency.node) && l.currency.node.Value == dollar {
		return big.NewRat(1, 1), true
	}
	name, ok := d.text(l.currency, currencyPattern, currencyRule)
	if !ok {
		return nil, false
	}
	worth, known := all[name]
	if !known {
		d.fault(l.currency, "what one %s is worth is not listed under currencies%s", name, d.suggest(name, func() []string {
			return append(slices.Sorted(maps.Keys(all)), dollar)
		}))
	}
	return worth, known
}

// microUSD is a price in micro-USD, to the nearest, half of one up. ok is false for what is
// too large.
func microUSD(price, worth *big.Rat) (n int64, ok bool) {
	x := new(big.Rat).Mul(price, worth)
	x.Mul(x, big.NewRat(1_000_000, 1)).Add(x, big.NewRat(1, 2))
	whole := new(big.Int).Quo(x.Num(), x.Denom())
	if !whole.IsInt64() || whole.Int64() > maxAmount {
		return 0, false
	}
	return whole.Int64(), true
}
