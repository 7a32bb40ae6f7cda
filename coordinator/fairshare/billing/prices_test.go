package billing

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"taskbus/coordinator"
)

// priceList has a price on every level: a request, a million input and a million output tokens.
var priceList = newPrices([]coordinator.Price{
	{Provider: "acme", Model: "big", Operation: "translate", PerRequest: 7},
	{Provider: "acme", Model: "big", InputPerMillion: 2_500_000, OutputPerMillion: 10_000_000}, // $2.50, $10
	{Provider: "acme", Operation: "translate", PerRequest: 5},
	{Provider: "acme", PerRequest: 100, InputPerMillion: 1, OutputPerMillion: 500_000},
	{Provider: "acme", PerRequest: 1_000_000}, // is not the first
	{Provider: "odd", PerRequest: -1, InputPerMillion: math.MaxInt64, OutputPerMillion: math.MaxInt64},
})

func TestTheMostSpecificPriceWins(t *testing.T) {
	for _, c := range []struct {
		model, operation string
		want             int64 // for one request with a million input tokens
	}{
		{"big", "translate", 7},
		{"big", "write", 2_500_000}, // the model's
		{"big", "", 2_500_000},
		{"small", "translate", 5}, // the operation's
		{"", "translate", 5},
		{"small", "write", 101}, // the provider's: 100 + 1
		{"", "", 101},
	} {
		if got, known := priceList.cost("acme", c.model, c.operation, 1, 1_000_000, 0); got != c.want || !known {
			t.Errorf("%s, %s: %d %v, want %d", c.model, c.operation, got, known, c.want)
		}
	}
	if got, known := priceList.cost("other", "big", "translate", 1, 1, 1); got != 0 || known {
		t.Errorf("another provider: %d %v, want none", got, known)
	}
	if got, known := priceList.cost("", "big", "translate", 1, 1, 1); got != 7 || !known { // acme's alone
		t.Errorf("a model without its provider: %d %v, want 7", got, known)
	}
	if got, known := priceList.cost("", "", "translate", 1, 1, 1); got != 0 || known {
		t.Errorf("no model at all: %d %v, want none", got, known)
	}
	if _, known := newPrices(nil).cost("acme", "big", "", 1, 1, 1); known {
		t.Error("an empty list knows a price")
	}
}

func TestCost(t *testing.T) {
	for _, c := range []struct {
		model             string
		requests, in, out int64
		want              int64
		why               string
	}{
		{"big", 1, 1200, 300, 6000, "1,200·2.5 + 300·10"},
		{"big", 1, 1, 0, 3, "2.5 rounded up"},
		{"big", 1, 1, 1, 13, "2.5 + 10 rounded up"},
		{"big", 1, 2, 0, 5, "5 is whole"},
		{"small", 1, 1, 1, 101, "100 + 0.000001 + 0.5, rounded once"},
		{"small", 3, 0, 0, 300, "3 requests"},
		{"small", -3, -1, -1, 0, "below 0 is 0"},
		{"small", 0, 0, 0, 0, "nothing"},
	} {
		if got, _ := priceList.cost("acme", c.model, "", c.requests, c.in, c.out); got != c.want {
			t.Errorf("%s: %d, want %d", c.why, got, c.want)
		}
	}
	if got, _ := priceList.cost("odd", "", "", math.MaxInt64, math.MaxInt64, math.MaxInt64); got != math.MaxInt64 {
		t.Errorf("the greatest there is costs %d", got)
	}
	// 2⁶² tokens at $1, $2 and $4 a million are 2⁶², 2⁶³ and 2⁶⁴ micro-USD.
	for price, want := range map[int64]int64{1: 1 << 62, 2: math.MaxInt64, 4: math.MaxInt64} {
		p := newPrices([]coordinator.Price{{Provider: "p", InputPerMillion: price * 1_000_000}})
		if got, _ := p.cost("p", "", "", 1, 1<<62, 0); got != want {
			t.Errorf("2⁶² tokens at $%d cost %d, want %d", price, got, want)
		}
	}
	if got, _ := priceList.cost("odd", "", "", 9, 0, 0); got != 0 {
		t.Errorf("a price below 0 gives %d", got)
	}
}

// TestCostIsExact: whatever the numbers, the cost is ⌈requests·p + (in·p' + out·p")/10⁶⌉, or
// all an int64 can hold.
func TestCostIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		any64 := rapid.OneOf(rapid.Int64Min(0), rapid.Int64Range(0, 1e9))
		price := coordinator.Price{Provider: "p", PerRequest: any64.Draw(t, "per request"),
			InputPerMillion: any64.Draw(t, "per input"), OutputPerMillion: any64.Draw(t, "per output")}
		requests, in, out := any64.Draw(t, "requests"), any64.Draw(t, "input"), any64.Draw(t, "output")
		times := func(a, b int64) *big.Int { return new(big.Int).Mul(big.NewInt(a), big.NewInt(b)) }
		want := times(in, price.InputPerMillion)
		want.Add(want, times(out, price.OutputPerMillion)).Add(want, big.NewInt(999_999)).Quo(want, big.NewInt(1_000_000))
		want.Add(want, times(requests, price.PerRequest))
		if !want.IsInt64() {
			want.SetInt64(math.MaxInt64)
		}
		if got, known := newPrices([]coordinator.Price{price}).cost("p", "m", "o", requests, in, out); got != want.Int64() ||
			!known {
			t.Errorf("%d, want %d", got, want)
		}
	})
}

func TestAmounts(t *testing.T) {
	const most = math.MaxInt64
	group := service{provider: "acme", model: "big", operation: "write"}
	inf, nan := math.Inf(1), math.NaN()
	for _, c := range []struct {
		why    string
		u      *coordinator.Usage
		want   coordinator.Amounts // requests, input, output, total, cost, concurrency
		priced bool
	}{
		{"a task is one request", nil, coordinator.Amounts{1, 0, 0, 0, 0, 2}, true},
		{"also with a usage that states none", &coordinator.Usage{InputTokens: 400},
			coordinator.Amounts{1, 400, 0, 400, 1000, 2}, true},
		{"parts are rounded up", &coordinator.Usage{Requests: 1.2, InputTokens: 0.1, OutputTokens: 2.5},
			coordinator.Amounts{2, 1, 3, 4, 33, 2}, true}, // 2.5 + 30, rounded up
		{"the stated cost goes before the price", &coordinator.Usage{OutputTokens: 1000, CostUSD: 0.5},
			coordinator.Amounts{1, 0, 1000, 1000, 500_000, 2}, true},
		{"its own model goes before the group's", &coordinator.Usage{Requests: 3, Model: "small"},
			coordinator.Amounts{3, 0, 0, 0, 300, 2}, true},
		{"another provider does not have the group's model", &coordinator.Usage{Requests: 3, Provider: "other"},
			coordinator.Amounts{3, 0, 0, 0, 0, 2}, false},
		{"a stated cost needs no price", &coordinator.Usage{Provider: "other", CostUSD: 1e-9},
			coordinator.Amounts{1, 0, 0, 0, 1, 2}, true},
		{"what is no number is 0", &coordinator.Usage{Requests: nan, InputTokens: nan, OutputTokens: -7, CostUSD: nan},
			coordinator.Amounts{1, 0, 0, 0, 0, 2}, true},
		{"nor less than 0", &coordinator.Usage{Requests: -inf, InputTokens: -1, OutputTokens: -inf, CostUSD: -1},
			coordinator.Amounts{1, 0, 0, 0, 0, 2}, true},
		{"nor more than there can be", &coordinator.Usage{Requests: inf, InputTokens: inf, OutputTokens: 1e15, CostUSD: 1e15},
			coordinator.Amounts{most, most, 1e15, most, most, 2}, true},
	} {
		if got, priced := priceList.amountsOf(c.u, group, 2); got != c.want || priced != c.priced {
			t.Errorf("%s: %v %v, want %v %v", c.why, got, priced, c.want, c.priced)
		}
	}
	if got, _ := priceList.amountsOf(nil, group, -1); got[coordinator.DimConcurrency] != 0 {
		t.Errorf("a concurrency of -1 is %d", got[coordinator.DimConcurrency])
	}
}

// TestMicroUSD: a decimal number of dollars is the micro-USD it says, and not one more for
// having been a binary fraction on the way.
func TestMicroUSD(t *testing.T) {
	for dollars, want := range map[float64]int64{
		0.000_246: 246, 0.07: 70_000, 0.29: 290_000, 1.1: 1_100_000, 4.35: 4_350_000, 50: 50_000_000,
		0.000_001: 1, 0.000_001_1: 2, 0.0000005: 1, 123_456.789_012: 123_456_789_012,
		5e-324: 1, 9.3e12: math.MaxInt64, math.MaxFloat64: math.MaxInt64,
	} {
		if got := microUSD(dollars); got != want {
			t.Errorf("$%g is %d, want %d", dollars, got, want)
		}
	}
	if dollars := 0.000_246; math.Ceil(dollars*1e6) != 247 {
		t.Errorf("$%g would do without care", dollars)
	}
}

// TestMicroUSDOfAnyDecimal: up to $1.1 thousand million, with all six digits.
func TestMicroUSDOfAnyDecimal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.Int64Range(0, 1<<50).Draw(t, "micro-USD")
		dollars, err := strconv.ParseFloat(fmt.Sprintf("%d.%06d", want/1e6, want%1e6), 64)
		if err != nil {
			t.Fatal(err)
		}
		if got := microUSD(dollars); got != want {
			t.Errorf("$%g is %d, want %d", dollars, got, want)
		}
	})
}

func TestPricesDoNotAllocate(t *testing.T) {
	u := &coordinator.Usage{Requests: 1, InputTokens: 1000, Model: "small"}
	if n := testing.AllocsPerRun(100, func() {
		priceList.amountsOf(u, service{"acme", "big", "write"}, 1)
		priceList.amountsOf(u, service{"none", "big", "write"}, 1)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkAmountsOf(b *testing.B) {
	u := &coordinator.Usage{Requests: 1, InputTokens: 1000, OutputTokens: 100, Model: "small"}
	b.ReportAllocs()
	for b.Loop() {
		priceList.amountsOf(u, service{"acme", "big", "write"}, 1)
	}
}
