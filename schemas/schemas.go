package schemas

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// The schemas, by the name of their message type or header.
const (
	TaskAssign          = "task.assign"
	TaskDispatch        = "task.dispatch"
	TaskResult          = "task.result"
	TaskProgress        = "task.progress"
	TaskCancel          = "task.cancel"
	TaskCompleted       = "task.completed"
	TaskCancelRequested = "task.cancel_requested"
	TaskDuplicate       = "task.duplicate"
	TaskDispatched      = "task.dispatched"
	AgentStatus         = "agent.status"
	AgentOnline         = "agent.online"
	AgentOffline        = "agent.offline"
	AssignmentFailed    = "assignment.failed"
	// Agents that choose: auctions, and work that is claimed.
	TaskAvailable = "task.available"
	TaskBid       = "task.bid"
	TaskBids      = "task.bids"
	TaskAwarded   = "task.awarded"
	BidRejected   = "task.bid_rejected"
	TaskClaim     = "task.claim"
	TaskGranted   = "task.granted"
	// Quotas.
	QuotaReached = "quota.reached"
	QuotaOverrun = "quota.overrun"
	// The two headers by which a dispatch can be decided again when it returns.
	TaskHeader  = "x-taskbus-task"
	TriedHeader = "x-taskbus-tried"
)

//go:embed *.json asyncapi.yaml openapi.yaml
var files embed.FS

// base is the address the files are compiled under; nothing is ever fetched.
const base = "taskbus:///schemas/"

// Names lists every schema, in the order of the constants.
func Names() []string {
	return []string{
		TaskAssign, TaskDispatch, TaskResult, TaskProgress, TaskCancel,
		TaskCompleted, TaskCancelRequested, TaskDuplicate, TaskDispatched,
		AgentStatus, AgentOnline, AgentOffline, AssignmentFailed,
		TaskAvailable, TaskBid, TaskBids, TaskAwarded, BidRejected, TaskClaim, TaskGranted,
		QuotaReached, QuotaOverrun,
		TaskHeader, TriedHeader,
	}
}

// File returns the text of an embedded file, such as "task.assign.json" or
// "asyncapi.yaml" or "openapi.yaml". The caller owns the copy.
func File(name string) ([]byte, error) { return files.ReadFile(name) }

// Set is every schema. It is safe for concurrent use.
type Set struct {
	byName map[string]schema
}

type schema struct {
	// doc is the file itself, for the descriptions.
	doc any
	// fields are the names of the properties, sorted.
	fields []string
	// compiled is the validator, made when the first value is held against it.
	compiled func() (*jsonschema.Schema, error)
}

// Compile gives every embedded schema, read when they are first asked for: a hundred
// agents in one process need them once. Each is compiled when the first value is held
// against it: ordinary messages never are (see package messages), and a process that
// compiled all of them would begin later, by more than all else at its start takes. An
// error means that this build is broken; nothing outside the binary can cause it.
func Compile() (*Set, error) { return embedded() }

var embedded = sync.OnceValues(func() (*Set, error) { return read(Names(), File) })

// read is Compile over any source of files, so that tests can break one.
func read(names []string, open func(string) ([]byte, error)) (*Set, error) {
	set := &Set{byName: make(map[string]schema, len(names))}
	for _, name := range names {
		text, err := open(name + ".json")
		if err != nil {
			return nil, fmt.Errorf("reading schema %s: %w", name, err)
		}
		var doc any
		if err := json.Unmarshal(text, &doc); err != nil {
			return nil, fmt.Errorf("reading schema %s: %w", name, err)
		}
		file, _ := doc.(map[string]any)
		properties, _ := file["properties"].(map[string]any)
		set.byName[name] = schema{
			doc: doc, fields: slices.Sorted(maps.Keys(properties)),
			compiled: sync.OnceValues(func() (*jsonschema.Schema, error) { return compile(name, text) }),
		}
	}
	return set, nil
}

// compile makes the validator of one schema, and turns the library's panics into errors.
func compile(name string, text []byte) (s *jsonschema.Schema, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("compiling schema %s: the validator cannot handle it: %v", name, r)
		}
	}()
	c := jsonschema.NewCompiler()
	c.Draft = jsonschema.Draft7
	c.LoadURL = func(url string) (io.ReadCloser, error) {
		return nil, fmt.Errorf("%s is not embedded in Taskbus and will not be loaded", url)
	}
	if err := c.AddResource(base+name+".json", bytes.NewReader(text)); err != nil {
		return nil, fmt.Errorf("compiling schema %s: %w", name, err)
	}
	if s, err = c.Compile(base + name + ".json"); err != nil {
		return nil, fmt.Errorf("compiling schema %s: %w", name, err)
	}
	return s, nil
}

// Fields lists the fields that the named schema knows, sorted; nil when there
// is no such schema. The caller must not change the list.
func (s *Set) Fields(name string) []string { return s.byName[name].fields }

// Validate holds a value, as encoding/json decodes it into an any, against the
// named schema. The error is a *Violation when the value does not fit, and
// anything else when there is no such schema, or it does not compile.
func (s *Set) Validate(name string, value any) error {
	sch, ok := s.byName[name]
	if !ok {
		return fmt.Errorf("there is no schema %q: use one of the names of package schemas", name)
	}
	validator, err := sch.compiled()
	if err != nil {
		return err
	}
	err = validate(validator, value)
	if err == nil {
		return nil
	}
	var found *jsonschema.ValidationError
	if errors.As(err, &found) {
		return sch.violation(name, found)
	}
	return &Violation{Schema: name, Keyword: "unsupported", Text: "holds a value that cannot be checked"}
}

// errPanicked stands for a crash of the validator. Its text is dropped: it may
// quote the value.
var errPanicked = errors.New("the validator crashed")

func validate(s *jsonschema.Schema, value any) (err error) {
	defer func() {
		if recover() != nil {
			err = errPanicked
		}
	}()
	return s.Validate(value)
}
