package messages

import (
	"fmt"
	"strings"
)

// hostile is the corpus of malformed and unusual task.assign messages. keyword
// is the rule a message must be refused by, "" when it is valid; path is where.
// The fuzz tests start from it.
var hostile = []struct {
	name, body    string
	path, keyword string
}{
	// Valid, though unusual.
	{"smallest", assign(), "", ""},
	{"white space", " \t\r\n" + strings.ReplaceAll(assign(), ",", " ,\n ") + "\n", "", ""},
	{"1.0 is an integer", assign(`"priority":1.0`), "", ""},
	{"2e0 is an integer", assign(`"priority":2e0`), "", ""},
	{"-0 is an integer of at least 0", assign(`"priority":-0`), "", ""},
	{"escaped key name", strings.Replace(assign(), "task_id", `task\u005fid`, 1), "", ""},
	{"escaped value", strings.Replace(assign(), "t-1", `t\u002d1`, 1), "", ""},
	{"surrogate pair", assign(`"labels":{"who":"\ud83d\ude00"}`), "", ""},
	{"unknown fields", assign(`"x":1,"y":{"task_id":[null]}`), "", ""},
	{"version 1", assign(`"message_version":1`), "", ""},
	{"version 1 in another notation", assign(`"message_version":1.0`), "", ""},
	{"version 0", assign(`"message_version":0`), "/message_version", "const"},
	{"version 2", assign(`"message_version":2`), "/message_version", "const"},
	{"a version in quotes", assign(`"message_version":"1"`), "/message_version", "const"},
	{"a version in another letter case", assign(`"Message_version":1`), "/Message_version", "letterCase"},
	{"type beyond ASCII", strings.Replace(assign(), "optimize_memory", "Speicher räumen", 1), "", ""},
	{"128 characters of two bytes", strings.Replace(assign(), "optimize_memory", strings.Repeat("ä", 128), 1), "", ""},
	{"id of 128", strings.Replace(assign(), "t-1", strings.Repeat("x", 128), 1), "", ""},
	{"correlation id of 255", assign(`"correlation_id":"` + strings.Repeat("~", 255) + `"`), "", ""},
	{"fraction of a second", assign(`"timeout_seconds":0.5`), "", ""},
	{"Python's isoformat", assign(`"deadline":"2026-01-31T23:59:59.123456"`), "", ""},
	{"everything", assign(`"priority":3,"correlation_id":"trace_123","timeout_seconds":300`,
		`"required_capabilities":["gpu","go"],"preferred_agents":["a-1"],"excluded_agents":["a-2","a-3"]`,
		`"group":"research","deadline":"2030-01-01T00:00:00+02:00","strategy":"least_loaded"`,
		`"estimated_usage":{"requests":1,"input_tokens":1200,"output_tokens":300.5,"cost_usd":0.02,"provider":"p",`+
			`"model":"m"}`,
		`"labels":{"team":"a"},"allow_borrowing":false,"widen_after_seconds":20`), "", ""},
	{"no tokens", assign(`"estimated_usage":{"requests":1,"input_tokens":0,"output_tokens":0,"provider":"p"}`), "", ""},
	{"alternatives",
		assign(
			`"estimated_usage":{"requests":1,"alternatives":[{"provider":"openai@main","model":"gpt-4o"},{"provider":"lab"}]}`),
		"", ""},
	{"64 levels", strings.Replace(assign(), "{}", `{"a":`+nested(62)+`}`, 1), "", ""},
	{"payload with the same keys on different levels",
		strings.Replace(assign(), "{}", `{"a":{"a":{"a":1}},"b":[{"a":1},{"a":2}]}`, 1), "", ""},
	{"99,000 keys and values in one object", strings.Replace(assign(), "{}", `{`+manyMembers(49_500)+`}`, 1), "", ""},
	{"1e308", assign(`"x":1e308`), "", ""},
	{"smaller than any float", assign(`"x":1e-308,"y":0.00000001e-308`), "", ""},

	// Not JSON.
	{"empty", "", "", "syntax"},
	{"null", "null", "", "type"},
	{"a number", "1", "", "type"},
	{"an array", "[]", "", "type"},
	{"byte order mark", "\xef\xbb\xbf" + assign(), "", "syntax"},
	{"truncated", assign()[:60], "/task_type", "syntax"},
	{"truncated in a string", assign(`"group":"abc`)[:len(assign(`"group":"abc`))-1], "/group", "syntax"},
	{"trailing garbage", assign() + "x", "", "syntax"},
	{"two messages", assign() + assign(), "", "syntax"},
	{"trailing comma", strings.Replace(assign(), "{}}", "{},}", 1), "", "syntax"},
	{"single quotes", strings.ReplaceAll(assign(), `"`, `'`), "", "syntax"},
	{"NaN", assign(`"x":NaN`), "/x", "syntax"},
	{"leading zero", assign(`"priority":01`), "/priority", "syntax"},
	{"control character in a string", strings.Replace(assign(), "t-1", "t\n1", 1), "/task_id", "syntax"},
	{"gzip", "\x1f\x8b\x08\x00\x00", "", "type"},
	{"invalid UTF-8", strings.Replace(assign(), "{}", "{\"a\":\"\xff\xfe\"}", 1), "/payload", "utf8"},
	{"UTF-8 of a surrogate", strings.Replace(assign(), "{}", "{\"a\":\"\xed\xa0\x80\"}", 1), "/payload", "utf8"},
	{"overlong UTF-8", strings.Replace(assign(), "{}", "{\"a\":\"\xc0\xaf\"}", 1), "/payload", "utf8"},
	{"lone high surrogate", strings.Replace(assign(), "{}", `{"a":"\ud83d"}`, 1), "/payload", "surrogate"},
	{"lone low surrogate", strings.Replace(assign(), "{}", `{"a":"\ude00"}`, 1), "/payload", "surrogate"},
	{"two high surrogates", strings.Replace(assign(), "{}", `{"a":"\ud83d\ud83d"}`, 1), "/payload", "surrogate"},
	{"two low surrogates", strings.Replace(assign(), "{}", `{"a":"\ude00\ude00"}`, 1), "/payload", "surrogate"},

	// Hostile.
	{"65 levels", strings.Replace(assign(), "{}", `{"a":`+nested(63)+`}`, 1), "/payload", "depth"},
	{"10,000 levels", strings.Replace(assign(), "{}", `{"a":`+nested(10_000)+`}`, 1), "/payload", "depth"},
	{"10,000 levels without an end", strings.Repeat(`{"a":`, 10_000), "/a", "depth"},
	{"1e9999999", assign(`"priority":1e9999999`), "/priority", "number"},
	{"exponent that would wrap around", assign(`"priority":1e18446744073709551617`), "/priority", "number"},
	{"1e309", assign(`"x":1e309`), "/x", "number"},
	{"beyond float64", assign(`"x":9e308`), "", "number"},
	{"many 1e999999", strings.Replace(assign(), "{}", `{"a":[`+strings.Repeat("1e999999,", 9_999)+`0]}`, 1), "/payload",
		"number"},
	{"65 digits", assign(`"x":` + strings.Repeat("9", 65)), "/x", "number"},
	{"100,000 keys and values in one object", strings.Replace(assign(), "{}", `{`+manyMembers(50_000)+`}`, 1), "/payload",
		"tokens"},
	{"duplicate key", assign(`"task_id":"t-2"`), "/task_id", "duplicateKey"},
	{"duplicate key, once escaped", assign(`"task\u005fid":"t-2"`), "/task_id", "duplicateKey"},
	{"duplicate key inside the payload", strings.Replace(assign(), "{}", `{"a":[{"b":1,"b":2}]}`, 1), "/payload",
		"duplicateKey"},
	{"duplicate key inside the payload, once escaped", strings.Replace(assign(), "{}", `{"b":1,"\u0062":2}`, 1),
		"/payload", "duplicateKey"},
	{"duplicate key among many", strings.Replace(assign(), "{}", `{`+manyMembers(1000)+`,"k500":1}`, 1), "/payload",
		"duplicateKey"},
	{"duplicate empty key", strings.Replace(assign(), "{}", `{"":1,"":2}`, 1), "/payload", "duplicateKey"},
	{"key in another letter case", assign(`"Task_ID":"t-2"`), "/Task_ID", "letterCase"},
	{"optional key in another letter case", assign(`"Priority":3`), "/Priority", "letterCase"},
	{"key with a Kelvin sign", assign("\"tas\u212a_id\":\"t-2\""), "/tas\u212a_id", "letterCase"},
	{"key in another letter case, escaped", assign(`"\u0054ask_id":"t-2"`), "/Task_id", "letterCase"},

	// Against the schema.
	{"no message type", strings.Replace(assign(), "message_type", "type", 1), "", "required"},
	{"another message type", strings.Replace(assign(), "task.assign", "task.dispatch", 1), "/message_type", "const"},
	{"no task id", strings.Replace(assign(), "task_id", "id", 1), "", "required"},
	{"empty id", strings.Replace(assign(), "t-1", "", 1), "/task_id", "pattern"},
	{"id of 129", strings.Replace(assign(), "t-1", strings.Repeat("x", 129), 1), "/task_id", "pattern"},
	{"id of 255", strings.Replace(assign(), "t-1", strings.Repeat("x", 255), 1), "/task_id", "pattern"},
	{"id of 256", strings.Replace(assign(), "t-1", strings.Repeat("x", 256), 1), "/task_id", "pattern"},
	{"id ending in a line break", strings.Replace(assign(), "t-1", `t-1\n`, 1), "/task_id", "pattern"},
	{"id beginning with a dot", strings.Replace(assign(), "t-1", ".t", 1), "/task_id", "pattern"},
	{"id beyond ASCII", strings.Replace(assign(), "t-1", "tä", 1), "/task_id", "pattern"},
	{"id is a number", strings.Replace(assign(), `"t-1"`, "1", 1), "/task_id", "type"},
	{"payload is a string", strings.Replace(assign(), "{}", `"{}"`, 1), "/payload", "type"},
	{"payload is null", strings.Replace(assign(), "{}", "null", 1), "/payload", "type"},
	{"empty type", strings.Replace(assign(), "optimize_memory", "", 1), "/task_type", "pattern"},
	{"129 characters of two bytes", strings.Replace(assign(), "optimize_memory", strings.Repeat("ä", 129), 1),
		"/task_type", "pattern"},
	{"delete character", strings.Replace(assign(), "optimize_memory", "a\x7f", 1), "/task_type", "pattern"},
	{"priority 4", assign(`"priority":4`), "/priority", "maximum"},
	{"priority -1", assign(`"priority":-1`), "/priority", "minimum"},
	{"priority 1.5", assign(`"priority":1.5`), "/priority", "type"},
	{"priority null", assign(`"priority":null`), "/priority", "type"},
	{"timeout 0", assign(`"timeout_seconds":0`), "/timeout_seconds", "exclusiveMinimum"},
	{"widened after 0 s", assign(`"widen_after_seconds":0`), "/widen_after_seconds", "exclusiveMinimum"},
	{"widened after more than a week", assign(`"widen_after_seconds":604800.1`), "/widen_after_seconds", "maximum"},
	{"timeout of more than a week", assign(`"timeout_seconds":604800.1`), "/timeout_seconds", "maximum"},
	{"correlation id of 256", assign(`"correlation_id":"` + strings.Repeat("x", 256) + `"`), "/correlation_id", "pattern"},
	{"correlation id with a tab", assign(`"correlation_id":"a\tb"`), "/correlation_id", "pattern"},
	{"65 capabilities", assign(`"required_capabilities":` + quoted(65, "gpu")), "/required_capabilities", "maxItems"},
	{"capability of 129", assign(`"required_capabilities":["` + strings.Repeat("x", 129) + `"]`),
		"/required_capabilities/0", "pattern"},
	{"129 preferred agents", assign(`"preferred_agents":` + quoted(129, "a")), "/preferred_agents", "maxItems"},
	{"preferred agent with a space", assign(`"preferred_agents":["a","b c"]`), "/preferred_agents/1", "pattern"},
	{"33 labels", assign(`"labels":{` + manyLabels(33) + `}`), "/labels", "maxProperties"},
	{"label is a number", assign(`"labels":{"a b":1}`), "/labels/a b", "type"},
	{"label of 257", assign(`"labels":{"a":"` + strings.Repeat("x", 257) + `"}`), "/labels/a", "pattern"},
	{"strategy in capitals", assign(`"strategy":"Least"`), "/strategy", "pattern"},
	{"borrowing in words", assign(`"allow_borrowing":"no"`), "/allow_borrowing", "type"},
	{"alternatives and a provider", assign(`"estimated_usage":{"provider":"openai","alternatives":[{"provider":"lab"}]}`),
		"/estimated_usage/alternatives", "not"},
	{"alternatives and a model", assign(`"estimated_usage":{"alternatives":[{"provider":"lab"}],"model":"m"}`),
		"/estimated_usage/alternatives", "not"},
	{"no alternatives", assign(`"estimated_usage":{"alternatives":[]}`), "/estimated_usage/alternatives", "minItems"},
	{"17 alternatives", assign(`"estimated_usage":{"alternatives":[` + strings.Repeat(`{"provider":"lab"},`, 16) +
		`{"provider":"lab"}]}`), "/estimated_usage/alternatives", "maxItems"},
	{"an alternative without a provider", assign(`"estimated_usage":{"alternatives":[{"model":"m"}]}`),
		"/estimated_usage/alternatives/0", "required"},
	{"negative usage", assign(`"estimated_usage":{"requests":-1}`), "/estimated_usage/requests", "minimum"},
	{"deadline in words", assign(`"deadline":"tomorrow"`), "/deadline", "pattern"},
	{"30th of February", assign(`"deadline":"2026-02-30T00:00:00Z"`), "/deadline", "calendar"},
}

func manyMembers(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"k%d":%d,`, i, i)
	}
	return strings.TrimSuffix(b.String(), ",")
}

func manyLabels(n int) string {
	return strings.ReplaceAll(strings.ReplaceAll(manyMembers(n), ":", `:"`), ",", `",`) + `"`
}

// statuses is the corpus of agent.status messages.
var statuses = []struct {
	name, body    string
	path, keyword string
}{
	{"COORDINATOR's fields", status(), "", ""},
	{"every field",
		status(`"capabilities":["gpu","go"],"queue":"agent.a-1","max_concurrent_tasks":4,"active_task_ids":["t-1"]`,
			`"capacity_items_per_second":16.5,"pending_items":28,"labels":{"zone":"b"},"relayed":true`), "", ""},
	{"BALANCING's health is heeded by nobody",
		status(`"capacity_items_per_second":8.5,"pending_items":12,"health":"BUSY"`), "", ""},
	{"integers written as floats", strings.Replace(status(), `"active_tasks":1`, `"active_tasks":1.0`, 1), "", ""},
	{"full load", strings.Replace(status(), "0.25", "1", 1), "", ""},
	{"Python's isoformat", strings.Replace(status(), "59Z", "59.123456", 1), "", ""},
	{"offset", strings.Replace(status(), "59Z", "59+05:30", 1), "", ""},
	{"unknown field", status(`"boot_id":"x"`), "", ""},
	{"version 1", status(`"message_version":1`), "", ""},
	{"version 2", status(`"message_version":2`), "/message_version", "const"},
	{"runs nothing", status(`"active_task_ids":[]`), "", ""},
	{"a million tasks", strings.Replace(status(), `"active_tasks":1`, `"active_tasks":1000000`, 1), "", ""},

	{"a million and one", strings.Replace(status(), `"active_tasks":1`, `"active_tasks":1000001`, 1), "/active_tasks",
		"maximum"},
	{"negative", strings.Replace(status(), `"available_capacity":3`, `"available_capacity":-3`, 1), "/available_capacity",
		"minimum"},
	{"reserved id", strings.Replace(status(), "a-1", "status", 1), "/agent_id", "not"},
	{"reserved suffix", strings.Replace(status(), "a-1", "a-1.control", 1), "/agent_id", "not"},
	{"unknown status", strings.Replace(status(), "ready", "sleeping", 1), "/status", "enum"},
	{"overload", strings.Replace(status(), "0.25", "1.01", 1), "/current_load", "maximum"},
	{"25 per cent", strings.Replace(status(), "0.25", `"25%"`, 1), "/current_load", "type"},
	{"no timestamp", strings.Replace(status(), "timestamp", "time", 1), "", "required"},
	{"a capacity below the least", status(`"capacity_items_per_second":9.9e-10`), "/capacity_items_per_second", "not"},
	{"a capacity of text", status(`"capacity_items_per_second":"4"`), "/capacity_items_per_second", "type"},
	{"a capacity beyond the most", status(`"capacity_items_per_second":1000000001`), "/capacity_items_per_second",
		"maximum"},
	{"relayed is true or false", status(`"relayed":1`), "/relayed", "type"},
	{"25 o'clock", strings.Replace(status(), "T23", "T25", 1), "/timestamp", "calendar"},
	{"before 1970", strings.Replace(status(), "2026", "1926", 1), "/timestamp", "calendar"},
	{"letter case", status(`"Agent_ID":"a-2"`), "/Agent_ID", "letterCase"},
	{"duplicate", status(`"agent_id":"a-2"`), "/agent_id", "duplicateKey"},
}

// results is the corpus of task.result messages.
var results = []struct {
	name, body    string
	path, keyword string
}{
	{"smallest", result(), "", ""},
	{"white space", " " + strings.ReplaceAll(result(), ",", "\n, ") + "\n", "", ""},
	{"every field",
		result(
			`"dispatch_id":"t-1.2","attempt":2,"duration_ms":1500,"error":"exit 1","attempted":false,"usage":{"requests":1}`),
		"", ""},
	{"every field of usage", result(
		`"usage":{"requests":1,"input_tokens":1200,"output_tokens":300.5,"cost_usd":0.02,"provider":"p","model":"m"}`), "",
		""},
	{"empty usage", result(`"usage":{}`), "", ""},
	{"unknown field", result(`"exit_code":1`), "", ""},
	{"version 1", result(`"message_version":1`), "", ""},
	{"version 2", result(`"message_version":2`), "/message_version", "const"},
	{"unknown field of usage", result(`"usage":{"requests":1,"cached_tokens":2}`), "", ""},
	{"given back after it had begun", strings.Replace(result(`"attempted":true`), "succeeded", "rejected", 1), "", ""},
	{"refused", strings.Replace(result(`"error":"no licence"`), "succeeded", "rejected", 1), "", ""},
	{"cancelled", strings.Replace(result(), "succeeded", "cancelled", 1), "", ""},
	{"error beyond ASCII", strings.Replace(result(`"error":"Datei fehlt: Größe"`), "succeeded", "failed", 1), "", ""},
	{"error of several lines", strings.Replace(result(`"error":"Traceback:\n  File \"a.py\""`), "succeeded", "failed", 1),
		"", ""},
	{"error of 2,048", result(`"error":"` + strings.Repeat("x", 2048) + `"`), "", ""},
	{"error of 2,048 characters of two bytes", result(`"error":"` + strings.Repeat("ä", 2048) + `"`), "", ""},
	{"fraction of a millisecond", result(`"duration_ms":0.25`), "", ""},
	{"duration of -0", result(`"duration_ms":-0`), "", ""},
	{"attempt written as a float", result(`"attempt":2.0`), "", ""},
	{"escaped outcome", strings.Replace(result(), "succeeded", `succee\u0064ed`, 1), "", ""},

	{"not JSON", "hello", "", "type"},
	{"another message type", strings.Replace(result(), "task.result", "agent.status", 1), "/message_type", "const"},
	{"no outcome", strings.Replace(result(), "outcome", "result", 1), "", "required"},
	{"no agent", strings.Replace(result(), "agent_id", "agent", 1), "", "required"},
	{"unknown outcome", strings.Replace(result(), "succeeded", "lost", 1), "/outcome", "enum"},
	{"outcome in capitals", strings.Replace(result(), "succeeded", "SUCCEEDED", 1), "/outcome", "enum"},
	{"outcome is a boolean", strings.Replace(result(), `"succeeded"`, "true", 1), "/outcome", "enum"},
	{"attempted in words", result(`"attempted":"yes"`), "/attempted", "type"},
	{"attempted as a number", result(`"attempted":1`), "/attempted", "type"},
	{"attempted null", result(`"attempted":null`), "/attempted", "type"},
	{"negative duration", result(`"duration_ms":-1`), "/duration_ms", "minimum"},
	{"duration of more than 31 years", result(`"duration_ms":1000000000001`), "/duration_ms", "maximum"},
	{"duration beyond an int64 of nanoseconds", result(`"duration_ms":9.3e12`), "/duration_ms", "maximum"},
	{"duration beyond float64", result(`"duration_ms":9e308`), "", "number"},
	{"duration with an absurd exponent", result(`"duration_ms":1e9999999`), "/duration_ms", "number"},
	{"duration in words", result(`"duration_ms":"1s"`), "/duration_ms", "type"},
	{"attempt 0", result(`"attempt":0`), "/attempt", "minimum"},
	{"attempt of a million and one", result(`"attempt":1000001`), "/attempt", "maximum"},
	{"half an attempt", result(`"attempt":1.5`), "/attempt", "type"},
	{"attempt of 20 digits", result(`"attempt":99999999999999999999`), "/attempt", "maximum"},
	{"dispatch id of 161", result(`"dispatch_id":"` + strings.Repeat("x", 161) + `"`), "/dispatch_id", "pattern"},
	{"error of 2,049", result(`"error":"` + strings.Repeat("x", 2049) + `"`), "/error", "maxLength"},
	{"error is an object", result(`"error":{"code":1}`), "/error", "type"},
	{"negative usage", result(`"usage":{"input_tokens":-5}`), "/usage/input_tokens", "minimum"},
	{"absurd usage", result(`"usage":{"cost_usd":1e16}`), "/usage/cost_usd", "maximum"},
	{"usage is a list", result(`"usage":[]`), "/usage", "type"},
	{"duplicate outcome", result(`"outcome":"failed"`), "/outcome", "duplicateKey"},
	{"duplicate key in usage", result(`"usage":{"requests":1,"requests":2}`), "/usage", "duplicateKey"},
	{"outcome in another letter case", result(`"Outcome":"failed"`), "/Outcome", "letterCase"},
	{"reserved agent", strings.Replace(result(), "a-1", "a-1.control", 1), "/agent_id", "not"},
	{"task id with a space", strings.Replace(result(), "t-1", "t 1", 1), "/task_id", "pattern"},
	{"empty correlation id", strings.Replace(result(), "trace_1", "", 1), "/correlation_id", "pattern"},
	{"31st of June", strings.Replace(result(), "2026-01-31", "2026-06-31", 1), "/timestamp", "calendar"},
}

// cancels is the corpus of task.cancel messages.
var cancels = []struct {
	name, body    string
	path, keyword string
}{
	{"smallest", `{"message_type":"task.cancel","task_id":"t-1"}`, "", ""},
	{"every field",
		`{"message_type":"task.cancel","task_id":"t-1","reason":"not\nneeded","dispatch_id":"t-1.1",` +
			`"correlation_id":"trace_1"}`, "", ""},
	{"unknown field", `{"message_type":"task.cancel","task_id":"t-1","force":true}`, "", ""},

	{"another request", `{"message_type":"task.bid","task_id":"t-1"}`, "/message_type", "const"},
	{"no task", `{"message_type":"task.cancel","reason":"all of them"}`, "", "required"},
	{"every task", `{"message_type":"task.cancel","task_id":"*"}`, "/task_id", "pattern"},
	{"two tasks", `{"message_type":"task.cancel","task_id":"t-1","task_id":"t-2"}`, "/task_id", "duplicateKey"},
	{"several tasks", `{"message_type":"task.cancel","task_id":["t-1","t-2"]}`, "/task_id", "type"},
	{"letter case", `{"message_type":"task.cancel","task_id":"t-1","Task_id":"t-2"}`, "/Task_id", "letterCase"},
	{"endless reason", `{"message_type":"task.cancel","task_id":"t-1","reason":"` + strings.Repeat("x", 2049) + `"}`,
		"/reason", "maxLength"},
	{"dispatch id of 161", `{"message_type":"task.cancel","task_id":"t-1","dispatch_id":"` + strings.Repeat("x", 161) +
		`"}`, "/dispatch_id", "pattern"},
	{"not JSON", "t-1", "", "type"},
}
