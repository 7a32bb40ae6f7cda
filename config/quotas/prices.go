package quotas

import (
	"cmp"
	"maps"
	"math/big"
	"slices"

	"taskbus/config/yamlconf"
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
		d.Entries(p, "a mapping of currencies to US dollars", func(key, value place) {
			name, ok := d.Take(key, aCurrency)
			if name == dollar {
				d.Fault(key, "a US dollar is what the others are counted in; remove it")
				return
			}
			worth := new(big.Rat)
			before := len(d.Faults)
			d.Exact(worth, maxExchange)(value)
			if worth.Sign() == 0 && len(d.Faults) == before {
				d.Fault(value, "must be above 0: it is what one %s is worth in US dollars", yamlconf.Clip(key.Node.Value))
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
			before := len(d.Faults)
			if d.Exact(n, maxPrice)(p); len(d.Faults) == before {
				l.given[i].price, l.given[i].at = n, p
			}
		}
	}
	return readers{
		"currency":                  d.Noted(&l.currency, d.Text(new(string), aCurrency)),
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

// unpriced reads what becomes of models without a price. They cost unpriced_price where that is to be.
func (d *decoder) unpriced(f *quotaFile) {
	u := &f.unpriced
	if before := len(d.Faults); u.rule.Node != nil {
		// The words are in the order of coordinator.UnpricedRule.
		if d.OneOf(&f.quotas.Unpriced, "refuse", "warn", "price")(u.rule); len(d.Faults) > before {
			return
		}
	}
	charged := f.quotas.Unpriced == coordinator.UnpricedCharge
	switch {
	case u.price.Node == nil && charged:
		d.Fault(u.rule,
			"does not say which price; add unpriced_price, such as {input_per_million_tokens: 10, "+
				"output_per_million_tokens: 30}")
	case u.price.Node == nil:
	case !charged:
		d.Fault(u.price, "says nothing without unpriced: price; add that, or remove this")
	default:
		before := len(d.Faults)
		u.listed.at = u.price
		d.Object(u.price, u.listed.amounts(d))
		if u.listed.none() && len(d.Faults) == before {
			d.Fault(u.price, noPrice)
		}
		d.Later(func() {
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
		d.Items(p, "prices", func(item place) {
			l := listedPrice{at: item}
			before, known := len(d.Faults), l.amounts(d)
			known["provider"] = d.name(&l.Provider, &l.provider, yamlconf.ID)
			known["model"], known["operation"] = d.Text(&l.Model, aModel), d.Text(&l.Operation, yamlconf.PlainWord)
			d.Object(item, known)
			switch {
			case len(d.Faults) > before:
			case l.provider.Node == nil:
				d.Need(item, "provider", "; say which provider it is the price of")
			case l.none():
				d.Fault(item, noPrice)
			default:
				f.prices = append(f.prices, l)
			}
		})
		d.Later(func() { d.convert(f) })
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
			d.Fault(l.at, "is a second price for the same as in line %d; remove one of the two", line)
			continue
		}
		first[s] = l.at.Node.Line
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
			d.Fault(g.at, "is more than %d US dollars; lower it", maxAmount/1_000_000)
		case *into == 0 && g.price.Sign() > 0:
			d.Fault(g.at, "is less than half a millionth of a US dollar, and would count as nothing; write 0 if that is meant")
		}
	}
}

// worth is what one unit of a price's currency is worth in US dollars.
func (d *decoder) worth(l *listedPrice, all currencies) (*big.Rat, bool) {
	if l.currency.Node == nil || l.currency.Scalar() && l.currency.Node.Value == dollar {
		return big.NewRat(1, 1), true
	}
	name, ok := d.Take(l.currency, aCurrency)
	if !ok {
		return nil, false
	}
	worth, known := all[name]
	if !known {
		d.Fault(l.currency, "what one %s is worth is not listed under currencies%s", name, d.Suggest(name, func() []string {
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
