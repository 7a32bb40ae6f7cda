package engine_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"taskbus/coordinator"
)

// variants are the effects and records in an order that never changes: what is written is the place
// of a type here, and not its name. A new one is added at the end.
var variants = []reflect.Type{
	reflect.TypeFor[*coordinator.Dispatch](), reflect.TypeFor[*coordinator.Fail](), reflect.TypeFor[coordinator.Ack](),
	reflect.TypeFor[coordinator.Duplicate](), reflect.TypeFor[coordinator.EnsureQueue](),
	reflect.TypeFor[coordinator.AgentChanged](),
	reflect.TypeFor[coordinator.AgentTrusted](), reflect.TypeFor[coordinator.StatusRefused](),
	reflect.TypeFor[coordinator.OtherQueue](),
	reflect.TypeFor[coordinator.AgentShared](), reflect.TypeFor[*coordinator.Completed](),
	reflect.TypeFor[coordinator.GivenBack](),
	reflect.TypeFor[coordinator.ResultRefused](), reflect.TypeFor[coordinator.Withdraw](),
	reflect.TypeFor[coordinator.CancelAnswered](),
	reflect.TypeFor[coordinator.OrderStands](), reflect.TypeFor[coordinator.TakeBack](),
	reflect.TypeFor[coordinator.LeaveQueue](),
	reflect.TypeFor[*coordinator.Offer](), reflect.TypeFor[coordinator.Award](), reflect.TypeFor[coordinator.RejectBid](),
	reflect.TypeFor[*coordinator.AuctionEnded](), reflect.TypeFor[coordinator.ClaimAnswered](),
	reflect.TypeFor[coordinator.ClaimsForgotten](),
	reflect.TypeFor[coordinator.QuotaReached](), reflect.TypeFor[coordinator.UsageExcessive](),
	reflect.TypeFor[coordinator.ModelUnpriced](),
	reflect.TypeFor[coordinator.MoveToLane](), reflect.TypeFor[coordinator.ReadLane](),
	reflect.TypeFor[coordinator.DropLane](),
	reflect.TypeFor[*coordinator.CallAnswered](), reflect.TypeFor[coordinator.QuotaControlsStand](),

	reflect.TypeFor[*coordinator.Assigned](), reflect.TypeFor[*coordinator.Settled](),
	reflect.TypeFor[*coordinator.LeaseChanged](),
	reflect.TypeFor[*coordinator.Remembered](), reflect.TypeFor[*coordinator.Learnt](),
	reflect.TypeFor[*coordinator.Forgiven](),
	reflect.TypeFor[*coordinator.LearntBefore](), reflect.TypeFor[*coordinator.BreakerChanged](),
	reflect.TypeFor[*coordinator.Ordered](),
	reflect.TypeFor[*coordinator.Tracked](), reflect.TypeFor[*coordinator.Consumed](),
	reflect.TypeFor[*coordinator.Doubted](),
	reflect.TypeFor[*coordinator.Joined](), reflect.TypeFor[*coordinator.AgentBefore](),
	reflect.TypeFor[*coordinator.Calibrated](),
	reflect.TypeFor[*coordinator.Owed](), reflect.TypeFor[*coordinator.Paid](),
	reflect.TypeFor[*coordinator.EndedBefore](),
	reflect.TypeFor[*coordinator.QuotaReserved](), reflect.TypeFor[*coordinator.QuotaExtended](),
	reflect.TypeFor[*coordinator.QuotaEnded](),
	reflect.TypeFor[*coordinator.QuotaBefore](), reflect.TypeFor[*coordinator.QuotaTold](),
	reflect.TypeFor[*coordinator.EstimateBefore](),
	reflect.TypeFor[*coordinator.ShareBefore](), reflect.TypeFor[*coordinator.LaneKnown](),
	reflect.TypeFor[*coordinator.PoolHeard](),
	reflect.TypeFor[*coordinator.QuotaControlled](), reflect.TypeFor[*coordinator.BatchSealed](),

	reflect.TypeFor[*coordinator.Asked](), reflect.TypeFor[*coordinator.Readdressed](),
	reflect.TypeFor[*coordinator.Progressed](), reflect.TypeFor[coordinator.ProgressRefused](),
	reflect.TypeFor[*coordinator.Renewed](),
}

// encoder writes values so that equal ones give equal bytes, in every version of Go: the exported
// fields of a struct that are not zero, each by its number, in the order of their declaration; maps
// in the order of their keys; numbers with a fraction to 9 digits. Names of types and fields are
// written for people only. Strings with a space are texts for people, and are written apart.
type encoder struct {
	facts, texts bytes.Buffer
	named        bool // for people
}

var (
	timeType     = reflect.TypeFor[time.Time]()
	durationType = reflect.TypeFor[time.Duration]()
	carriedType  = reflect.TypeFor[coordinator.Carried]() // its fields are those of the struct that it is in
)

// variant writes an effect or a record.
func (e *encoder) variant(x any) {
	at := slices.Index(variants, reflect.TypeOf(x))
	switch {
	case at < 0:
		panic(fmt.Sprintf("%T is not among the variants of referee_digest_test.go: add it at the end", x))
	case e.named:
		fmt.Fprintf(&e.facts, "%s ", strings.TrimPrefix(strings.TrimPrefix(fmt.Sprintf("%T", x), "*"), "coordinator."))
	default:
		fmt.Fprintf(&e.facts, "#%d ", at)
	}
	e.value(reflect.ValueOf(x))
	e.facts.WriteByte('\n')
}

// followed writes what followed from an event.
func (e *encoder) followed(effects []coordinator.Effect, records []coordinator.Record) {
	for _, f := range effects {
		e.variant(f)
	}
	for _, r := range records {
		e.variant(r)
	}
}

// values writes what a question is answered with.
func (e *encoder) values(all ...any) {
	for _, x := range all {
		e.value(reflect.ValueOf(x))
		e.facts.WriteByte('\n')
	}
}

func (e *encoder) value(v reflect.Value) {
	w := &e.facts
	if !v.IsValid() {
		w.WriteString("nil")
		return
	}
	switch v.Type() {
	case timeType:
		if t := v.Interface().(time.Time); t.IsZero() {
			w.WriteString("never")
		} else if e.named {
			w.WriteString(t.UTC().Format("2006-01-02T15:04:05.999999999"))
		} else {
			fmt.Fprintf(w, "%d.%d", t.Unix(), t.Nanosecond())
		}
		return
	case durationType:
		if e.named {
			w.WriteString(v.Interface().(time.Duration).String())
			return
		}
	}
	switch v.Kind() {
	case reflect.Bool:
		w.WriteString(strconv.FormatBool(v.Bool()))
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		w.WriteString(strconv.FormatInt(v.Int(), 10))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if s, ok := v.Interface().(fmt.Stringer); ok && e.named {
			w.WriteString(s.String())
		} else {
			w.WriteString(strconv.FormatUint(v.Uint(), 10))
		}
	case reflect.Float32, reflect.Float64:
		w.WriteString(strconv.FormatFloat(v.Float(), 'g', 9, 64))
	case reflect.String:
		e.text(v.String())
	case reflect.Pointer, reflect.Interface:
		e.value(v.Elem())
	case reflect.Slice, reflect.Array:
		e.list(v)
	case reflect.Map:
		e.entries(v)
	case reflect.Struct:
		e.fields(v)
	default:
		panic("no encoding of a " + v.Type().String())
	}
}

func (e *encoder) text(s string) {
	if !e.named && strings.Contains(s, " ") {
		e.facts.WriteByte('~')
		e.texts.WriteString(s)
		e.texts.WriteByte('\n')
		return
	}
	e.facts.WriteString(strconv.Quote(s))
}

func (e *encoder) list(v reflect.Value) {
	if v.Kind() == reflect.Slice && v.IsNil() {
		e.facts.WriteString("none")
		return
	}
	e.facts.WriteByte('[')
	for i := range v.Len() {
		e.value(v.Index(i))
		e.facts.WriteByte(' ')
	}
	e.facts.WriteByte(']')
}

// entries writes a map: each key with its value, by what the key is written as.
func (e *encoder) entries(v reflect.Value) {
	byKey := make(map[string]reflect.Value, v.Len())
	for key, value := range v.Seq2() {
		k := encoder{named: true}
		k.value(key)
		byKey[k.facts.String()] = value
	}
	e.facts.WriteByte('{')
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		e.facts.WriteString(key)
		e.facts.WriteByte(':')
		e.value(byKey[key])
		e.facts.WriteByte(' ')
	}
	e.facts.WriteByte('}')
}

func (e *encoder) fields(v reflect.Value) {
	e.facts.WriteByte('{')
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if !f.Anonymous || f.Type != carriedType {
			e.field(f, strconv.Itoa(i), v.Field(i))
			continue
		}
		number := strconv.Itoa(i) // of the first; of the others with their own behind it
		for j := range f.Type.NumField() {
			e.field(f.Type.Field(j), number, v.Field(i).Field(j))
			number = fmt.Sprint(i, ".", j+1)
		}
	}
	e.facts.WriteByte('}')
}

// field writes a field that is not zero, by its number or, for people, its name.
func (e *encoder) field(f reflect.StructField, number string, v reflect.Value) {
	if !f.IsExported() || v.IsZero() {
		return
	}
	if e.named {
		number = f.Name
	}
	e.facts.WriteString(number + ":")
	e.value(v)
	e.facts.WriteByte(' ')
}

// digest is one hash over all that came before.
type digest struct{ sum [sha256.Size]byte }

func (d *digest) add(b []byte) { d.sum = sha256.Sum256(append(d.sum[:], b...)) }

// check is a part of the hash, to tell which event was the first to differ.
func (d *digest) check() uint16 { return binary.BigEndian.Uint16(d.sum[:]) }

func (d *digest) String() string { return fmt.Sprintf("%x", d.sum[:8]) }

// chance draws numbers: the same ones for a seed, in every version of Go.
type chance struct{ state uint64 }

// n draws from 0 to most.
func (c *chance) n(most int) int {
	c.state += 0x9e3779b97f4a7c15
	z := c.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return int((z ^ z>>31) % uint64(most+1))
}

// oneIn is true once in so many times.
func (c *chance) oneIn(times int) bool { return c.n(times-1) == 0 }

// seconds draws one of the choices.
func (c *chance) seconds(choices ...float64) time.Duration {
	return time.Duration(math.Round(pick(c, choices...) * 1e9))
}

func pick[T any](c *chance, choices ...T) T { return choices[c.n(len(choices)-1)] }

// some draws a sorted part of a list, at most so many.
func some[S ~string](c *chance, most int, pool ...S) (part []S) {
	for range c.n(most) {
		if one := pick(c, pool...); !slices.Contains(part, one) {
			part = append(part, one)
		}
	}
	slices.Sort(part)
	return part
}
