package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/coordinator/bus"
)

// fleetSize is how many agents share the work.
const fleetSize = 100

// relayInput is the queue that the relay consumes.
const relayInput = "bench.assign"

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

func agentID(i int) string      { return fmt.Sprintf("bench-%03d", i) }
func taskbusQueue(i int) string { return "agent." + agentID(i) }
func relayQueue(i int) string   { return fmt.Sprintf("bench.agent.%03d", i) }
func queues(name func(int) string) []string {
	all := make([]string, fleetSize)
	for i := range all {
		all[i] = name(i)
	}
	return all
}

// skills are the capabilities of agent i: those of two or three kinds, so that
// every kind has at least a dozen agents to choose from.
func skills(i int) []string {
	var all []string
	for _, k := range []int{i, i / len(kinds), 3*i + 1} {
		all = append(all, kinds[k%len(kinds)].requires...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// allSkills lets every agent do everything.
func allSkills(int) []string {
	var all []string
	for _, k := range kinds {
		all = append(all, k.requires...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// fleetFile is an agents.yaml. Silence and full queues are never the limit: the
// generator of statuses is quiet between runs, and a dispatch that nobody takes
// must stay where it is until it has been counted.
func fleetFile(slots int, skills func(int) []string) []byte {
	const quiet = ", accept_timeout_seconds: 3600"
	return append(fleetFileWith(slots, skills, quiet), "global_settings: {stale_agent_threshold_seconds: 600, assignment_timeout_seconds: 60}\n"...)
}

// fleetFileWith is the same without global_settings; more goes into the entry of each agent.
func fleetFileWith(slots int, skills func(int) []string, more string) []byte {
	var b strings.Builder
	b.WriteString("agents:\n")
	for i := range fleetSize {
		fmt.Fprintf(&b, "  %s: {capabilities: [%s], max_concurrent_tasks: %d, health_check_interval: 5%s}\n",
			agentID(i), strings.Join(skills(i), ", "), slots, more)
	}
	b.WriteString("task_routing:\n")
	for _, k := range kinds {
		fmt.Fprintf(&b, "  %s: {required_capabilities: [%s]}\n", k.name, strings.Join(k.requires, ", "))
	}
	return []byte(b.String())
}

const taskPrefix = "bench-"

func taskID(n int) string { return fmt.Sprintf("%s%09d", taskPrefix, n) }

// taskNumber reads the number back from a task id or a dispatch id.
func taskNumber(messageID string) (int, bool) {
	digits, found := strings.CutPrefix(messageID, taskPrefix)
	digits, _, _ = strings.Cut(digits, ".")
	n, err := strconv.Atoi(digits)
	return n, found && err == nil && n >= 0
}

// task is the n-th task.assign, about 500 bytes.
func task(n int) amqp.Publishing {
	return taskOf(n, kinds[n%len(kinds)].name)
}

func taskOf(n int, kind string) amqp.Publishing {
	id := taskID(n)
	body := fmt.Appendf(make([]byte, 0, 512),
		`{"message_type":"task.assign","task_id":%q,"task_type":%q,"priority":%d,"correlation_id":"trace-%08x-%s","timeout_seconds":300,`+
			`"payload":{"document":"s3://reports/2026/q%d/supply-chain-%07d.pdf","language":"en","max_words":%d,"sections":["summary","risks","actions"],`+
			`"note":"Numbers from the appendix, please; the reader knows last quarter's report and wants what has changed since."},`+
			`"labels":{"team":"operations","cost_center":"cc-%04d"}}`,
		id, kind, n%4, n*7919, id, n%4+1, n, 200+n%200, n%1000)
	return amqp.Publishing{
		DeliveryMode: amqp.Persistent, ContentType: "application/json", Type: "task.assign",
		MessageId: id, AppId: "bench", Body: body,
	}
}

// quorum are the arguments of a quorum queue like Taskbus's own.
func quorum() amqp.Table {
	return amqp.Table{"x-queue-type": "quorum", "x-overflow": "reject-publish", "x-delivery-limit": int64(1000)}
}

// setAside are Taskbus's queues in which a task of ours is a fault.
func setAside() []string { return []string{bus.QueueReassign, bus.QueueFailed, bus.QueueDead} }

// everyQueue is all that a run may leave behind.
func everyQueue() []string {
	all := slices.Concat(queues(relayQueue), queues(taskbusQueue), setAside(), detectionQueues())
	return append(all, relayInput, bus.QueueAssign, bus.QueueAssignHigh, bus.QueueRequest,
		bus.StreamStatus, bus.StreamResult, bus.StreamJournal, streamBare, hopQueue)
}
