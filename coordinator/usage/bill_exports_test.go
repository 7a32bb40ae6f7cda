package usage

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

// The exports of providers as they come out of their consoles: the names of the columns are theirs,
// in their order; what stands in them is made up. Where each header is from:
//
//   - OpenAI, platform.openai.com/usage, "Export", cost_FROM_TO.csv: the header in the tests of
//     several public readers of it (as of autumn 2026: 17 columns).
//   - OpenAI, the same page, completions_usage_FROM_TO.csv: the columns that public notes on exports
//     of September 2025 list. A month without usage has the first four columns and no other.
//   - Anthropic, console "Usage", claude_api_tokens_….csv: the header in the tests of public readers
//     (2026: with cache writes of 5 minutes and 1 hour apart; before: one column for both).
//   - Anthropic, console "Cost", claude_api_cost_….csv: likewise (August 2026: with api_key_id).
//   - OpenRouter, "Activity": likewise (May 2026).
const (
	openAICosts = "start_time,end_time,start_time_iso,end_time_iso,amount_value,amount_currency,quantity," +
		"quantity_unit,line_item,user_id,api_key_id,project_id,organization_id,project_name,organization_name,user_email," +
		"api_source\n"
	openAIUsage = "start_time,end_time,start_time_iso,end_time_iso,project_id,num_model_requests,user_id," +
		"api_key_id,model,batch,service_tier,input_tokens,output_tokens,input_cached_tokens,input_uncached_tokens," +
		"input_text_tokens,output_text_tokens,input_cached_text_tokens,input_audio_tokens,input_cached_audio_tokens," +
		"output_audio_tokens,input_image_tokens,input_cached_image_tokens,output_image_tokens\n"
	openAIEmpty    = "start_time,end_time,start_time_iso,end_time_iso\n"
	anthropicUsage = "usage_date_utc,model_version,api_key,workspace,usage_type,context_window," +
		"usage_input_tokens_no_cache,usage_input_tokens_cache_write_5m,usage_input_tokens_cache_write_1h," +
		"usage_input_tokens_cache_read,usage_output_tokens,web_search_count,inference_geo,speed\n"
	anthropicUsage25 = "usage_date_utc,model_version,usage_input_tokens_no_cache,usage_input_tokens_cache_write," +
		"usage_input_tokens_cache_read,usage_output_tokens,web_search_count\n"
	anthropicCosts = "usage_date_utc,model,workspace,api_key,usage_type,context_window,token_type,cost_usd," +
		"list_price_usd,cost_type,inference_geo,speed,api_key_id,api_key_status\n"
	openRouter = "Date,Slug,Usage,BYOK Usage,Requests,Prompt Tokens,Completion Tokens,Reasoning Tokens\n"
)

func TestBillsAsProvidersExportThem(t *testing.T) {
	day := func(model, group, agent string) Key {
		return Key{Day: "2026-09-28", Provider: "p", Model: model, Group: group, Agent: agent}
	}
	for _, c := range []struct {
		name, text string
		o          BillOptions
		want       map[Key]billed
		has        string
		ignored    string
	}{
		{
			// The 28th of September begins at 1790553600. Costs have 30 decimals, and a day without any
			// is a line without an amount. The project's name goes before its id.
			"OpenAI's costs", openAICosts +
				"1790467200,1790553600,2026-09-27T00:00:00+00:00,2026-09-28T00:00:00+00:00,,,,,,,,,,,,,\n" +
				"1790553600,1790640000,2026-09-28T00:00:00+00:00,2026-09-29T00:00:00+00:00,0.003835980000000000000000000000,usd," +
				",,\"gpt-5-nano, input_tokens\",,key_1,proj_a,org-x,Proj A,X,a@example.org,\n" +
				"1790553600,1790640000,2026-09-28T00:00:00+00:00,2026-09-29T00:00:00+00:00,0.5,usd,1000,tokens,\"gpt-5-nano, " +
				"output_tokens\",,key_1,proj_a,org-x,Proj A,X,a@example.org,\n",
			BillOptions{},
			map[Key]billed{
				{Day: "2026-09-27", Provider: "p"}: {},
				day("", "Proj A", "key_1"):         {nano: 503_835_980}, // 0.00383598 + 0.5
			},
			"date provider group agent cost_usd",
			"end_time start_time_iso end_time_iso quantity quantity_unit line_item user_id project_id organization_id " +
				"organization_name user_email api_source",
		},
		{
			// What a line is for is in line_item alone; to distinguish lines the options name each.
			"OpenAI's costs by line", openAICosts +
				"1790553600,1790640000,,,0.25,usd,,,\"gpt-5-nano, input_tokens\",,key_1,proj_a,,,,,\n" +
				"1790553600,1790640000,,,0.5,usd,,,\"gpt-5-nano, output_tokens\",,key_1,proj_a,,,,,\n",
			BillOptions{Columns: map[string]string{"model": "line_item", "group": "project_id"},
				Models: map[string]string{"gpt-5-nano, input_tokens": "gpt-5-nano", "gpt-5-nano, output_tokens": "gpt-5-nano"}},
			map[Key]billed{day("gpt-5-nano", "proj_a", "key_1"): {nano: 750_000_000}},
			"date provider model group agent cost_usd",
			"end_time start_time_iso end_time_iso quantity quantity_unit user_id organization_id project_name " +
				"organization_name user_email api_source",
		},
		{
			// Minutes of a day are added up: 3 + 25 requests, of 4212 + 15738 and 1673 + 1482 tokens.
			// input_tokens has the cached ones in it.
			"OpenAI's usage", openAIUsage +
				"1790553600,1790553660,2026-09-28T00:00:00+00:00,2026-09-28T00:01:00+00:00,proj_a,3.0,,key_1,gpt-4o-2024-08-06," +
				"False,default,4212,1673,1280,2932,4212,1673,1280,0,0,0,0,0,0\n" +
				"1790553660,1790553720,2026-09-28T00:01:00+00:00,2026-09-28T00:02:00+00:00,proj_a,25.0,,key_1,gpt-4o-2024-08-06," +
				"False,default,15738,1482,0,15738,15738,1482,0,0,0,0,0,0,0\n",
			BillOptions{Models: map[string]string{"gpt-4o-2024-08-06": "gpt-4o"}},
			map[Key]billed{day("gpt-4o", "proj_a", "key_1"): {measures: [4]int64{28, 19_950, 3155, 0}}},
			"date provider model group agent requests input_tokens output_tokens",
			"end_time start_time_iso end_time_iso user_id batch service_tier input_cached_tokens input_uncached_tokens " +
				"input_text_tokens output_text_tokens input_cached_text_tokens input_audio_tokens input_cached_audio_tokens " +
				"output_audio_tokens input_image_tokens input_cached_image_tokens output_image_tokens",
		},
		{
			// Its input is told in four columns: 100 + 20 + 3 + 4000 + 7 more of another context window.
			"Anthropic's usage", anthropicUsage +
				"2026-09-28,claude-sonnet-4-20250514,app-key,Default,standard,≤ 200k,100,20,3,4000,50,1,not_available,\n" +
				"2026-09-28,claude-sonnet-4-20250514,app-key,Default,standard,> 200k,7,0,0,0,5,0,not_available,\n",
			BillOptions{Models: map[string]string{"claude-sonnet-4-20250514": "claude-sonnet-4"}},
			map[Key]billed{day("claude-sonnet-4", "Default", "app-key"): {measures: [4]int64{0, 4130, 55, 0}}},
			"date provider model group agent input_tokens output_tokens",
			"usage_type context_window web_search_count inference_geo speed",
		},
		{
			"Anthropic's usage, older", anthropicUsage25 + "2026-09-28,claude-x,100,23,4000,50,1\n", BillOptions{},
			map[Key]billed{day("claude-x", "", ""): {measures: [4]int64{0, 4123, 50, 0}}},
			"date provider model input_tokens output_tokens", "web_search_count",
		},
		{
			// A line for each sort of token: 0.05 + 0.02. The key's name goes before its id, on either side of it.
			"Anthropic's costs", anthropicCosts +
				"2026-09-28,Claude Haiku 4.5,Default,app-key,message,≤ " +
				"200k,input_no_cache,0.05,0.06,token,not_available,,apikey_01A,active\n" +
				"2026-09-28,Claude Haiku 4.5,Default,app-key,message,≤ " +
				"200k,output,0.02,0.02,token,not_available,,apikey_01A,active\n",
			BillOptions{Models: map[string]string{"Claude Haiku 4.5": "claude-haiku-4-5"}},
			map[Key]billed{day("claude-haiku-4-5", "Default", "app-key"): {nano: 70_000_000}},
			"date provider model group agent cost_usd",
			"usage_type context_window token_type list_price_usd cost_type inference_geo speed api_key_id api_key_status",
		},
		{
			// "Slug" and "Usage" (in US dollars) are its own words: they are said.
			"OpenRouter's activity", openRouter +
				"\"2026-09-28 00:00:00\",\"anthropic/claude\",\"430.07\",\"0\",\"4115\",\"70965665\",\"3009973\",\"0\"\n",
			BillOptions{Columns: map[string]string{"model": "slug", "cost_usd": "usage"}},
			map[Key]billed{day("anthropic/claude", "", ""): {[4]int64{4115, 70_965_665, 3_009_973, 0}, 430_070_000_000}},
			"date provider model requests input_tokens output_tokens cost_usd", "BYOK Usage Reasoning Tokens",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.o.Provider = "p"
			b := readBill(t, c.text, c.o)
			got := map[Key]billed{}
			for k, v := range b.rows {
				got[k] = *v
			}
			if !reflect.DeepEqual(got, c.want) || strings.Join(b.Has, " ") != c.has {
				t.Errorf("got %+v, %v\nwant %+v, %s", got, b.Has, c.want, c.has)
			}
			ignored := slices.Clone(b.Ignored)
			slices.Sort(ignored)
			want := strings.Fields(strings.NewReplacer("BYOK Usage", "BYOK_Usage", "Reasoning Tokens", "Reasoning_Tokens").
				Replace(c.ignored))
			for i := range want {
				want[i] = strings.NewReplacer("BYOK_Usage", "BYOK Usage", "Reasoning_Tokens", "Reasoning Tokens").Replace(want[i])
			}
			slices.Sort(want)
			if !slices.Equal(ignored, want) {
				t.Errorf("ignored %q\nwant    %q", ignored, want)
			}
		})
	}
}

// A day on which nothing was used is on the export, and no difference; one on which only we have
// something is.
func TestDaysWithoutUsageOnABill(t *testing.T) {
	b := readBill(t, openAICosts+
		"1790467200,1790553600,,,,,,,,,,,,,,,\n"+ // the 27th
		"1790553600,1790640000,,,0.01,usd,,,,,,,,,,,\n", // the 28th
		BillOptions{Provider: "openai"})
	rows := []Row{use("2026-09-28", "a", "gpt-4o", 100, 10_000)} // 0.01 dollars
	if r := Reconcile(rows, b, ByDay, "", "", Tolerance{}); len(r.Differences) != 0 || r.From != "2026-09-27" {
		t.Errorf("got %+v", r)
	}
	rows = append(rows, use("2026-09-27", "a", "gpt-4o", 1, 7))
	if r := Reconcile(rows, b, ByDay, "", "", Tolerance{}); len(r.Differences) != 1 ||
		r.Differences[0].Day != "2026-09-27" || r.Differences[0].Ours != 7 {
		t.Errorf("got %+v", r.Differences)
	}
}

// Exports that cannot be compared are refused with what is wrong, and never taken for something else.
func TestExportsThatAreRefused(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"a month without usage", openAIEmpty + "1790467200,1790553600,,\n", "line 1: there is nothing to compare"},
		{"another currency", openAICosts + "1790553600,1790640000,,,0.5,eur,,,,,,,,,,,\n",
			"line 2: the cost is in eur: it must be in US dollars"},
		// DeepSeek's costs are in yuan, and in its amounts a column "amount" counts tokens.
		{"yuan",
			"user_id,start_time_iso,end_time_iso,model,wallet_type,cost,currency\nu,2026-09-28T00:00:00+08:00," +
				"2026-09-29T00:00:00+08:00,deepseek-chat,paid,2.8,CNY\n", "line 1: there is no column date"},
		{"yuan, by the day", "date,model,cost,currency\n2026-09-28,deepseek-chat,2.8,CNY\n", "line 2: the cost is in CNY"},
		{"tokens called amounts",
			"user_id,start_time_iso,end_time_iso,model,api_key_name,api_key,type,price,amount\nu,2026-09-28T00:00:00+08:00,," +
				"m,k,sk,output_tokens,0.1,500\n", "line 1: "},
		{"parts and a whole", "date,usage_input_tokens,usage_input_tokens_no_cache\n2026-09-28,5,3\n",
			"line 1: the columns \"usage_input_tokens\" and \"usage_input_tokens_no_cache\" both mean input_tokens"},
		{"a part that is no number", "date,usage_input_tokens_no_cache,usage_input_tokens_cache_read\n2026-09-28,5,many\n",
			`line 2: input_tokens is "many"`},
	} {
		if _, err := ReadBill([]byte(c.text), BillOptions{}); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", c.name, err, c.want)
		}
	}
	// The currency counts where there is a cost.
	readBill(t, "date,input_tokens,cost,currency\n2026-09-28,5,,EUR\n2026-09-28,5,1,USD\n", BillOptions{})
}
