package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/coordinator/bus"
)

const (
	fleetSize = 100
	manySlots = 100_000
	sdkSlots  = 10 // how many tasks each agent of the SDK may have at once
)

// kinds are the task types and what each requires.
var kinds = [...]struct {
	name     string
	requires []string
}{
	{"summarize-document", []string{"summarize"}},
	{"code-review", []string{"code", "review"}},
	{"translate", []string{"translate"}},
	{"web-research", []string{"search", "web"}},
	{"train-embedding", []string{"gpu"}},
	{"extract-invoice", []string{"extract", "ocr"}},
	{"transcribe-call", []string{"speech"}},
	{"classify-ticket", []string{"classify", "search"}},
}

func agentID(i int) string    { return fmt.Sprintf("bench-%03d", i) }
func agentQueue(i int) string { return "agent." + agentID(i) }
func relayQueue(i int) string { return fmt.Sprintf("bench.agent.%03d", i) }

func queueNames(name func(int) string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = name(i)
	}
	return all
}

func requiredBy(indexes ...int) []string {
	var all []string
	for _, k := range indexes {
		all = append(all, kinds[k%len(kinds)].requires...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// skills are the capabilities of agent i: those of two or three kinds, so that every kind has at least a dozen agents.
func skills(i int) []string  { return requiredBy(i, i/len(kinds), 3*i+1) }
func allSkills(int) []string { return requiredBy(0, 1, 2, 3, 4, 5, 6, 7) }

// Parts of an agents.yaml. In most, silence and full queues are never the limit: a dispatch that no agent takes stays
// where it is until it has been counted.
const (
	patient = ", accept_timeout_seconds: 3600"
	settled = "global_settings: {stale_agent_threshold_seconds: 600, assignment_timeout_seconds: 60}\n"
)

// fleet is an agents.yaml; entry is added to that of each agent, rest to the routes.
func fleet(slots int, skills func(int) []string, entry, rest string) string {
	var b strings.Builder
	b.WriteString("agents:\n")
	for i := range fleetSize {
		fmt.Fprintf(&b, "  %s: {capabilities: [%s], max_concurrent_tasks: %d, health_check_interval: 5%s}\n",
			agentID(i), strings.Join(skills(i), ", "), slots, entry)
	}
	b.WriteString("task_routing:\n")
	for _, k := range kinds {
		fmt.Fprintf(&b, "  %s: {required_capabilities: [%s]}\n", k.name, strings.Join(k.requires, ", "))
	}
	return b.String() + rest
}

const teams = 100 // groups of the second level

// quotasOf is a quotas.yaml of three levels, with a budget and a rate in each of four dimensions at all of them, and
// room for everything. more goes into the limits of the pool; requests is the rate of requests.
func quotasOf(more, requests string) string {
	const plenty = "{rate: 900000000000, per: second}"
	var b strings.Builder
	b.WriteString("pool:\n  limits:\n" + more)
	for _, d := range [][2]string{{"requests", requests}, {"input_tokens", plenty}, {"output_tokens", plenty}} {
		fmt.Fprintf(&b, "    %s: [{amount: 900000000000000, per: month}, %s]\n", d[0], d[1])
	}
	b.WriteString("    cost_usd: [{amount: 900000000, per: month}, {rate: 900000, per: second}]\n" +
		"prices: [{provider: lab, model: m, input_per_million_tokens: 2.5, output_per_million_tokens: 10}]\ngroups:\n")
	for i := range 10 {
		fmt.Fprintf(&b, "  - {id: org-%d, weight: %d}\n", i, 1+i)
	}
	for i := range teams {
		fmt.Fprintf(&b, "  - {id: team-%d, parent: org-%d, weight: %d}\n", i, i%10, 1+i%7)
	}
	return b.String()
}

// taskMaker makes the n-th task and says where it goes.
type taskMaker func(n int) (queue string, p amqp.Publishing)

const taskPrefix = "bench-"

func taskID(n int) string { return fmt.Sprintf("%s%09d", taskPrefix, n) }

// taskNumber reads the number back from a task id or a dispatch id.
func taskNumber(messageID string) (int, bool) {
	digits, found := strings.CutPrefix(messageID, taskPrefix)
	digits, _, _ = strings.Cut(digits, ".")
	n, err := strconv.Atoi(digits)
	return n, found && err == nil && n >= 0
}

// task is about 500 bytes.
func task(n int) (string, amqp.Publishing) { return taskOf(n, kinds[n%len(kinds)].name, "") }

// askingTask is likewise, and names a queue for the answer.
func askingTask(n int) (string, amqp.Publishing) {
	queue, p := task(n)
	p.ReplyTo = answersQueue
	return queue, p
}

// groupTask is likewise, with a group and what it is expected to take.
func groupTask(n int) (string, amqp.Publishing) {
	return taskOf(n, kinds[n%len(kinds)].name, fmt.Sprintf(`,"group":"team-%d","estimated_usage":{"requests":1,`+
		`"input_tokens":%d,"output_tokens":%d,"provider":"lab","model":"m"}`, n%teams, 500+n%1500, 50+n%300))
}

func taskOf(n int, kind, more string) (string, amqp.Publishing) {
	id := taskID(n)
	return bus.QueueAssign, assignment(id, fmt.Appendf(make([]byte, 0, 640),
		`{"message_type":"task.assign","task_id":%q,"task_type":%q,"priority":%d,"correlation_id":"trace-%08x-%s",`+
			`"timeout_seconds":300,"payload":{"document":"s3://reports/2026/q%d/supply-chain-%07d.pdf",`+
			`"language":"en","max_words":%d,"sections":["summary","risks","actions"],"note":"Numbers from the `+
			`appendix, please; the reader knows last quarter's report and wants what has changed since."},`+
			`"labels":{"team":"operations","cost_center":"cc-%04d"}%s}`,
		id, kind, n%4, n*7919, id, n%4+1, n, 200+n%200, n%1000, more))
}

// overloadTask is short; one in a hundred is critical, on the queue for those.
func overloadTask(n int) (string, amqp.Publishing) {
	queue, priority := bus.QueueAssign, 1
	if urgency(n) != "" {
		queue, priority = bus.QueueAssignHigh, 3
	}
	return queue, assignment(taskID(n), fmt.Appendf(nil,
		`{"message_type":"task.assign","task_id":%q,"task_type":%q,"priority":%d,"payload":{"number":%d}}`,
		taskID(n), kinds[n%len(kinds)].name, priority, n))
}

func urgency(n int) string {
	if n%100 == 99 {
		return "critical-"
	}
	return ""
}

func assignment(id string, body []byte) amqp.Publishing {
	p := message(bus.QueueAssign, body)
	p.MessageId, p.AppId = id, "bench"
	return p
}

func message(messageType string, body []byte) amqp.Publishing {
	const content = "application/json"
	return amqp.Publishing{DeliveryMode: amqp.Persistent, ContentType: content, Type: messageType, Body: body}
}
