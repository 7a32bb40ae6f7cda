package quotas

import (
	"fmt"
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"

	"taskbus/config/yamlconf"
	"taskbus/coordinator"
)

// A rate in whole numbers is the rate of the file, exactly, and in lowest terms.
func TestRatesAreExact(t *testing.T) {
	for text, want := range map[string]coordinator.QuotaLimit{
		"2.5":   {Nominal: 5, Per: 2 * time.Second, Burst: 3},    // five in two seconds; three at once
		"5":     {Nominal: 5, Per: time.Second},                  // its burst is worked out
		"0.5":   {Nominal: 1, Per: 2 * time.Second, Burst: 1},    //
		"0.29":  {Nominal: 29, Per: 100 * time.Second, Burst: 1}, //
		"1000":  {Nominal: 1000, Per: time.Second},               //
		"1.1":   {Nominal: 11, Per: 10 * time.Second, Burst: 2},  //
		"0.001": {Nominal: 1, Per: 1000 * time.Second, Burst: 1}, // the finest there is
	} {
		q := mustParse(t, fmt.Sprintf("groups: [{id: a, limits: {requests: {rate: %s, per: second}}}]", text))
		if got := *q.Nodes[1].Rates[coordinator.DimRequests]; got != want {
			t.Errorf("%s per second: %+v, want %+v", text, got, want)
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		thousandths := rapid.Int64Range(1, 1_000_000_000).Draw(rt, "thousandths")
		per := rapid.SampledFrom(ratePeriods).Draw(rt, "per")
		q := mustParse(t, fmt.Sprintf("groups: [{id: a, limits: {requests: {rate: %s, per: %s}}}]",
			yamlconf.InFull(thousandths, 3), per))
		got := q.Nodes[1].Rates[coordinator.DimRequests]
		want := new(big.Rat).Mul(big.NewRat(thousandths, 1000), big.NewRat(1, int64(rateUnits[per])))
		if big.NewRat(got.Nominal, int64(got.Per)).Cmp(want) != 0 {
			rt.Fatalf("%s per %s became %d every %s", yamlconf.InFull(thousandths, 3), per, got.Nominal, got.Per)
		}
		if whole := thousandths%1000 == 0; whole != (got.Per == rateUnits[per] && got.Burst == 0) {
			rt.Fatalf("%s per %s became %+v", yamlconf.InFull(thousandths, 3), per, got)
		}
	})
}

// Prices are exact to the micro-USD, in every currency.
func TestPricesAreExact(t *testing.T) {
	for _, c := range []struct {
		price, worth string
		want         int64
	}{
		{"0.15", "", 150_000},
		{"0.15", "1.08", 162_000},              // 0.15 · 1.08 = 0.162
		{"0.1", "1.1", 110_000},                // in floating point 0.11000000000000001
		{"2.5", "0.0067", 16_750},              //
		{"0.0000375", "", 38},                  // 37.5 micro-USD: half of one up
		{"0.0000374", "", 37},                  //
		{"0.000000333333333333333333", "3", 1}, // just below 1
		{"0", "1.08", 0},                       //
		{"1000000", "1000", 1_000_000_000_000_000},
	} {
		file := fmt.Sprintf("prices: [{provider: p, per_request: %s}]", c.price)
		if c.worth != "" {
			file = fmt.Sprintf("currencies: {EUR: %s}\nprices: [{provider: p, per_request: %s, currency: EUR}]", c.worth,
				c.price)
		}
		if got := mustParse(t, file).Prices[0].PerRequest; got != c.want {
			t.Errorf("%s at %s: %d micro-USD, want %d", c.price, c.worth, got, c.want)
		}
	}
}

// A search for a price from the top finds the most specific one.
func TestPricesAreSorted(t *testing.T) {
	q := mustParse(t, `prices:
  - {provider: b, per_request: 1}
  - {provider: a, per_request: 2}
  - {provider: a, operation: embed, per_request: 3}
  - {provider: a, model: m, per_request: 4}
  - {provider: a, model: m, operation: embed, per_request: 5}
`)
	var got []int64
	for _, p := range q.Prices {
		got = append(got, p.PerRequest/1_000_000)
	}
	if want := []int64{5, 4, 3, 2, 1}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("prices in the order %v, want %v", got, want)
	}
}
