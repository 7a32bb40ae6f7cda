package config

import "taskbus/config/yamlconf"

// maxFileBytes is far above any real fleet, and far below what would cost memory.
const maxFileBytes = 1 << 20

var agentsFile = yamlconf.File{Name: "agents.yaml", MaxBytes: maxFileBytes, Elsewhere: elsewhere,
	Holds: "agents.yaml describes a fleet, it holds no data", Begin: "describe at least `agents:`"}

// elsewhere says of a key that people look for in an agent's entry where it belongs instead; "" of any other.
func elsewhere(key string, known yamlconf.Keys) string {
	if known["max_concurrent_tasks"] == nil {
		return ""
	}
	switch key {
	case "model", "provider", "llm":
		return ": which model the work uses is said by tasks (estimated_usage) and results (usage), and limited in " +
			"quotas.yaml"
	case "id", "name":
		return ": the name of an entry is the key that it stands under"
	}
	return ""
}

// decoder reads agents.yaml.
type decoder struct{ *yamlconf.Decoder }

// A place of the file, and what reads one.
type (
	place   = yamlconf.Place
	reader  = yamlconf.Reader
	readers = yamlconf.Keys
)

// What names look like, beside yamlconf.ID.
var (
	// Labels are as those of messages.
	aLabel = yamlconf.NewForm(`^[^\x00-\x1f\x7f]{1,64}$`,
		"a label's name of 1 to 64 characters, none of them a control character")
	aLabelValue = yamlconf.NewForm(`^[^\x00-\x1f\x7f]{0,256}$`,
		"a text of at most 256 characters, none of them a control character (true, false and null in quotes)")
	aQueue = yamlconf.NewForm(`^[!-~]{1,255}$`, "a queue name of 1 to 255 printable ASCII characters without spaces")
	// aQueueGlob is a pattern of queues: it begins with what stands for
	// itself, so that none admits whatever there is in the virtual host.
	aQueueGlob = yamlconf.NewForm(`^[A-Za-z0-9]([!-z|~]|\{id\}){0,254}$`,
		"a pattern of queues such as work.{id} or work.*: 1 to 255 printable characters without spaces, "+
			"beginning with a letter or digit, with braces only in {id}")
	// aGlob is a pattern of ids: those of yamlconf.ID in which * stands for
	// any characters, also none.
	aGlob = yamlconf.NewForm(`^[A-Za-z0-9*][A-Za-z0-9._:*-]{0,127}$`,
		"a pattern of ids such as worker-* (in quotes if it begins with *): 1 to 128 letters, digits and "+
			". _ : - *, beginning with a letter, digit or *")
)
