package journal

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"unsafe"

	"taskbus/coordinator"
)

// The structs of package coordinator are the schema: a field has its number in the tag `rec`, and with it, after
// commas:
//
//	name    a string that comes again and again in a message, and is written once (ids of agents always are)
//	hash    a number of which all bits are alike
//	max=N   the highest value of a closed set that has no type of its own (see closedSets)
//	set     a pointer that is never nil once it is read
//	empty   a list without elements is another thing than none
//
// A field with `rec:"-"` is not written. The fields of an embedded struct are those of the struct that it is in. The
// journal calls a field by its name, or by the tag `name`.

// recordTypes are the types of records, by their numbers in the format, which never change.
var recordTypes = [...]coordinator.Record{
	1:  &coordinator.Assigned{},
	2:  &coordinator.Settled{},
	3:  &coordinator.LeaseChanged{},
	4:  &coordinator.Remembered{},
	5:  &coordinator.Learnt{},
	6:  &coordinator.Forgiven{},
	7:  &coordinator.LearntBefore{},
	8:  &coordinator.BreakerChanged{},
	9:  &coordinator.Ordered{},
	10: &coordinator.Tracked{},
	11: &coordinator.Joined{},
	12: &coordinator.AgentBefore{},
	13: &coordinator.Owed{},
	14: &coordinator.Paid{},
	15: &coordinator.Consumed{},
	16: &coordinator.Doubted{},
	17: &coordinator.Calibrated{},
	18: &coordinator.QuotaReserved{},
	19: &coordinator.QuotaExtended{},
	20: &coordinator.QuotaEnded{},
	21: &coordinator.QuotaBefore{},
	22: &coordinator.EstimateBefore{},
	23: &coordinator.ShareBefore{},
	24: &coordinator.LaneKnown{},
	25: &coordinator.PoolHeard{},
	26: &coordinator.QuotaControlled{},
	27: &coordinator.QuotaTold{},
	28: &coordinator.EndedBefore{},
	29: &coordinator.TaskBefore{},
	30: &coordinator.BatchSealed{},
	31: &coordinator.Readdressed{},
	32: &coordinator.Renewed{},
}

// eventTypes are those of events, likewise.
var eventTypes = [...]coordinator.Event{
	1:  coordinator.PolicyChanged{},
	2:  coordinator.SessionOpened{},
	3:  coordinator.SessionLost{},
	4:  coordinator.DrainBegan{},
	5:  coordinator.TaskReceived{},
	6:  coordinator.TaskReturned{},
	7:  coordinator.AgentReported{},
	8:  coordinator.DispatchSettled{},
	9:  coordinator.QueueChecked{},
	10: coordinator.ResultReported{},
	11: coordinator.CancelRequested{},
	12: coordinator.AgentOrdered{},
	13: coordinator.QueueSeen{},
	14: coordinator.TakeBackEnded{},
	15: coordinator.FailureTold{},
	16: coordinator.Tick{},
	17: coordinator.BidReceived{},
	18: coordinator.OfferUnheard{},
	19: coordinator.ClaimReceived{},
	20: coordinator.LaneMoved{},
	21: coordinator.LaneSeen{},
	22: coordinator.LaneEnded{},
	23: coordinator.IntakeChanged{},
	24: coordinator.CallAsked{},
	25: coordinator.QuotaControlsRequested{},
	26: coordinator.PublishingHeld{},
	27: coordinator.ProgressReported{},
}

// closedSets are the types with so many values, from 0: what else a message has in their place cannot be.
var closedSets = map[reflect.Type]uint8{
	reflect.TypeFor[coordinator.AgentStatus]():      uint8(coordinator.StatusOffline) + 1,
	reflect.TypeFor[coordinator.AttemptEnd]():       coordinator.NumAttemptEnds,
	reflect.TypeFor[coordinator.Attribution]():      coordinator.NumAttributions,
	reflect.TypeFor[coordinator.CallOp]():           coordinator.NumCallOps,
	reflect.TypeFor[coordinator.Dimension]():        coordinator.NumDimensions,
	reflect.TypeFor[coordinator.Fate]():             coordinator.NumFates,
	reflect.TypeFor[coordinator.NameKept]():         coordinator.NumNamesKept,
	reflect.TypeFor[coordinator.Order]():            uint8(coordinator.OrderUncordon) + 1,
	reflect.TypeFor[coordinator.Outcome]():          coordinator.NumOutcomes,
	reflect.TypeFor[coordinator.Priority]():         uint8(coordinator.Priorities),
	reflect.TypeFor[coordinator.PublishOutcome]():   uint8(coordinator.PublishAbandoned) + 1,
	reflect.TypeFor[coordinator.QuotaControlKind](): coordinator.NumQuotaControlKinds,
	reflect.TypeFor[coordinator.QuotaEnd]():         coordinator.NumQuotaEnds,
	reflect.TypeFor[coordinator.QuotaWord]():        coordinator.NumQuotaWords,
	reflect.TypeFor[coordinator.Reason]():           uint8(len(coordinator.Reasons())) + 1,
	reflect.TypeFor[coordinator.ReturnCause]():      coordinator.NumReturnCauses,
	reflect.TypeFor[coordinator.UsageMeant]():       uint8(coordinator.UsageInput) + 1,
	reflect.TypeFor[Kind]():                         uint8(lastKind) + 1,
}

// kind is a type of records or events.
type kind struct {
	number byte
	fields *layout
	small  bool // values are made many at a time
}

// kinds are those of one closed set.
type kinds struct {
	numbered []*kind // 0: none
	types    map[reflect.Type]*kind
}

var (
	records = kindsOf(recordTypes[:])
	events  = kindsOf(eventTypes[:])

	headerFields = layoutOf(reflect.TypeFor[Header]())
	// specials are what messages have between header and items.
	specials = [lastKind + 1]*layout{
		KindEpoch:    layoutOf(reflect.TypeFor[Epoch]()),
		KindSnapshot: layoutOf(reflect.TypeFor[Chunk]()),
		KindInputs:   layoutOf(reflect.TypeFor[Recorded]()),
		KindPiece:    layoutOf(reflect.TypeFor[Piece]()),
	}
)

func kindsOf[T any](values []T) kinds {
	k := kinds{make([]*kind, len(values)), make(map[reflect.Type]*kind, len(values))}
	for n, v := range values[1:] {
		t := reflect.TypeOf(v)
		one := &kind{number: byte(n + 1)}
		k.types[t] = one
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		one.fields = layoutOf(t)
		one.small = t == reflect.TypeFor[coordinator.Settled]() || t == reflect.TypeFor[coordinator.Remembered]()
		k.numbered[n+1] = one
	}
	return k
}

// last is the highest number.
func (k *kinds) last() uint64 { return uint64(len(k.numbered) - 1) }

// of is the kind of a value; the set is closed, and a test holds the list against it.
func (k *kinds) of(value any) *kind {
	one, ok := k.types[reflect.TypeOf(value)]
	if !ok {
		panic(fmt.Sprintf("journal: %T has no place in the format", value))
	}
	return one
}

// layout is what is written of a struct.
type layout struct {
	typ    reflect.Type
	fields []field
	at     []uint8 // where in fields a number is, from 1; 0: it is not known
	set    []field // those that are never nil once they are read
}

// field is one of a struct, or the element of a list. Its functions are given where the value is: reflection on each
// value took twice as long.
type field struct {
	name   string
	offset uintptr // in the struct
	typ    reflect.Type
	tag    uint64 // number and wire type
	// empty reports that the value says nothing, and is left out.
	empty func(p unsafe.Pointer) bool
	write func(c *coder, p unsafe.Pointer)
	read  func(c *coder, p unsafe.Pointer)
}

// options are what a tag says beside the number.
type options struct {
	name, hash, set, empty bool
	max                    uint8
}

func parseTag(tag string) (number int, o options, err error) {
	head, rest, _ := strings.Cut(tag, ",")
	if number, err = strconv.Atoi(head); err != nil || number < 1 {
		return 0, o, fmt.Errorf("tag %q begins with no number", tag)
	}
	for word := range strings.SplitSeq(rest, ",") {
		switch what, value, _ := strings.Cut(word, "="); what {
		case "":
		case "name":
			o.name = true
		case "hash":
			o.hash = true
		case "set":
			o.set = true
		case "empty":
			o.empty = true
		case "max":
			most, err := strconv.ParseUint(value, 10, 8)
			if err != nil {
				return 0, o, err
			}
			o.max = uint8(most)
		default:
			return 0, o, fmt.Errorf("tag %q: %s is nothing that it may say", tag, what)
		}
	}
	return number, o, nil
}

// fieldsIn are the fields of a struct, with those of embedded structs in their places.
func fieldsIn(t reflect.Type) (all []reflect.StructField) {
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.Anonymous {
			all = append(all, f)
			continue
		}
		for _, inner := range fieldsIn(f.Type) {
			inner.Offset += f.Offset
			all = append(all, inner)
		}
	}
	return all
}

// layoutOf is what is written of a struct type. What is wrong with its tags is a mistake in the program, found by
// any test: it panics.
func layoutOf(t reflect.Type) *layout {
	m := &layout{typ: t}
	for _, f := range fieldsIn(t) {
		tag := f.Tag.Get("rec")
		if tag == "" || tag == "-" {
			continue
		}
		number, o, err := parseTag(tag)
		if err == nil && number < len(m.at) && m.at[number] != 0 {
			err = fmt.Errorf("%s has that number, too", m.fields[m.at[number]-1].name)
		}
		if err != nil {
			panic(fmt.Sprintf("%s.%s: %v", t, f.Name, err))
		}
		wire, one := fieldOf(f.Type, o)
		one.name, one.offset, one.typ, one.tag = f.Name, f.Offset, f.Type, uint64(number)<<3|uint64(wire)
		m.fields = append(m.fields, one)
		m.at = append(m.at, make([]uint8, max(0, number+1-len(m.at)))...)
		m.at[number] = uint8(len(m.fields))
		if o.set {
			m.set = append(m.set, one)
		}
	}
	return m
}

// write writes the fields of the struct at p that say something.
func (m *layout) write(c *coder, p unsafe.Pointer) {
	for i := range m.fields {
		f := &m.fields[i]
		if at := unsafe.Add(p, f.offset); !f.empty(at) {
			c.write(f.tag)
			f.write(c, at)
		}
	}
}

// read reads what is left of c.in into the fields of the struct at p.
func (m *layout) read(c *coder, p unsafe.Pointer) {
	for _, f := range m.set {
		if t := f.typ.Elem(); c.allocates(t.Size()) {
			*(*unsafe.Pointer)(unsafe.Add(p, f.offset)) = reflect.New(t).UnsafePointer()
		}
	}
	for len(c.in) > 0 {
		tag := c.read()
		if n := tag >> 3; n >= uint64(len(m.at)) || m.at[n] == 0 {
			c.skip(byte(tag & 7))
			continue
		}
		f := &m.fields[m.at[tag>>3]-1]
		if f.tag != tag {
			c.fail(impossible)
			return
		}
		f.read(c, unsafe.Add(p, f.offset))
	}
}
