// Package config answers one question: how is this coordinator set up?
//
// It reads agents.yaml, quotas.yaml if there is one, and the environment, and gives one
// complete, validated [Config], or every fault at once ([Faults]), each with its line and
// with what to do about it. The order is always the same: defaults, strict decoding,
// validation of the whole, and only then a value. There is no half-valid Config.
//
// # Precedence
//
// agents.yaml's default strategy < ASSIGNMENT_STRATEGY < the strategy of a task
// type < the strategy a task asks for. The first two meet in [Load]; the other
// two are the engine's.
//
// # What is strict
//
// Misspelt and repeated keys, aliases, merge keys, tags, second documents and
// numbers in disguise (08, 0x10, 1_000, "3") are faults. A section with nothing
// under it counts as absent; a setting with nothing behind it is a fault. So are
// an option of a strategy that the strategy does not take, and a formula (see package
// formula) that names what does not exist or gives no number.
//
// # Schemas
//
// The editors' schemas (agents.schema.json, quotas.schema.json) have keys, types, ranges, words and defaults of what
// the readers accept ([taskbus/config/yamlconf.Describe]): `go generate ./config` writes them, and a test says when
// that is due.
//
// # Quotas
//
// quotas.yaml is a file of its own because it changes for other reasons, and by other people, than the fleet; package
// quotas reads it, and a [coordinator.Policy] is made of both ([Config.WithQuotas]).
//
// # What it must never do
//
// It never panics for bad input, never lets a broken file replace a good one
// (the caller keeps the Config it has), never prints a [Secret] or the value of
// a key it does not know, and knows nothing of brokers, HTTP or logging.
package config
