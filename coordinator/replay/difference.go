package replay

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"taskbus/coordinator"
)

// mostDifferences is how many fields a difference names.
const mostDifferences = 4

// difference says how two records differ, field by field.
func difference(journalled, replayed coordinator.Record) string {
	if reflect.TypeOf(journalled) != reflect.TypeOf(replayed) {
		return fmt.Sprintf("journalled was %s, replayed is %s", subject(journalled), subject(replayed))
	}
	var found []string
	fields(&found, "", reflect.ValueOf(journalled).Elem(), reflect.ValueOf(replayed).Elem())
	if len(found) > mostDifferences {
		found = append(found[:mostDifferences], "…")
	}
	if one, two := subject(journalled), subject(replayed); one != two {
		return fmt.Sprintf("journalled was %s, replayed is %s: %s", one, two, strings.Join(found, ", "))
	}
	return fmt.Sprintf("%s: %s", subject(journalled), strings.Join(found, ", "))
}

// subject names a record and what it is about.
func subject(r coordinator.Record) string {
	name := recordName(r)
	switch r := r.(type) {
	case *coordinator.Assigned:
		return fmt.Sprintf("%s of %s to %s", name, coordinator.DispatchID(r.Task, r.Attempt), r.Agent)
	case *coordinator.BatchSealed:
		return fmt.Sprintf("%s of %s", name, r.Batch)
	case *coordinator.Settled:
		return fmt.Sprintf("%s of %s", name, key(r.Key))
	case *coordinator.LeaseChanged:
		return fmt.Sprintf("%s of %s", name, key(r.Key))
	case *coordinator.Remembered:
		if r.ID != "" {
			return fmt.Sprintf("%s of %s (%s)", name, r.ID, r.Fate)
		}
		return fmt.Sprintf("%s of %s (%s)", name, key(r.Key), r.Fate)
	case *coordinator.Learnt:
		return fmt.Sprintf("%s of %s", name, r.Agent)
	case *coordinator.Forgiven:
		return fmt.Sprintf("%s to %s", name, r.Agent)
	case *coordinator.BreakerChanged:
		return fmt.Sprintf("%s of %s", name, r.Agent)
	case *coordinator.Ordered:
		return fmt.Sprintf("%s of %s", name, r.Agent)
	case *coordinator.Tracked:
		return fmt.Sprintf("%s of %s", name, r.Agent)
	case *coordinator.Calibrated:
		return fmt.Sprintf("%s of %s", name, r.Agent)
	case *coordinator.QuotaReserved:
		return fmt.Sprintf("%s for %s", name, key(r.Key))
	case *coordinator.QuotaEnded:
		return fmt.Sprintf("%s of %s", name, key(r.Key))
	case *coordinator.Owed:
		return fmt.Sprintf("%s for %s", name, r.Task.ID)
	case *coordinator.TaskBefore:
		return fmt.Sprintf("%s of %s", name, r.Task.ID)
	case *coordinator.EndedBefore:
		return fmt.Sprintf("%s of %s", name, r.Task.ID)
	case *coordinator.Paid:
		return fmt.Sprintf("%s for %s", name, key(r.Key))
	case *coordinator.PoolHeard:
		return fmt.Sprintf("%s of %s", name, r.Node)
	case *coordinator.QuotaTold:
		return fmt.Sprintf("%s of %d %% of %s", name, r.Percent, r.Node)
	case *coordinator.ShareBefore:
		return fmt.Sprintf("%s of %s", name, r.Group)
	case *coordinator.QuotaControlled:
		return fmt.Sprintf("%s with %d set, %d removed", name, len(r.Set), len(r.Removed))
	case *coordinator.LaneKnown:
		return fmt.Sprintf("%s of %s", name, r.Lane)
	default:
		return name
	}
}

func key(k coordinator.TaskKey) string { return fmt.Sprintf("key %016x%016x", k[0], k[1]) }

// fields compares two values and notes every plain field that differs. Lists and maps
// are compared as a whole; one without elements is like none.
func fields(found *[]string, path string, a, b reflect.Value) {
	if a.Type() == reflect.TypeFor[time.Time]() {
		x, y := a.Interface().(time.Time), b.Interface().(time.Time)
		if !x.Equal(y) {
			*found = append(*found, fmt.Sprintf("%s was %s, is %s", path, x.UTC().Format(time.RFC3339Nano),
				y.UTC().Format(time.RFC3339Nano)))
		}
		return
	}
	switch a.Kind() {
	case reflect.Pointer:
		switch {
		case !a.IsNil() && !b.IsNil():
			fields(found, path, a.Elem(), b.Elem())
		case a.IsNil() != b.IsNil():
			*found = append(*found, fmt.Sprintf("%s was %s, is %s", path, given(a), given(b)))
		}
		return
	case reflect.Struct:
		for i := range a.NumField() {
			name := a.Type().Field(i).Name
			switch {
			case a.Type().Field(i).Anonymous: // its fields are those of the struct
				name = path
			case path != "":
				name = path + "." + name
			}
			fields(found, name, a.Field(i), b.Field(i))
		}
		return
	case reflect.Slice, reflect.Map:
		if a.Len() == 0 && b.Len() == 0 {
			return
		}
	}
	if x, y := a.Interface(), b.Interface(); !reflect.DeepEqual(x, y) {
		*found = append(*found, fmt.Sprintf("%s was %v, is %v", path, x, y))
	}
}

// given says whether there is anything behind a pointer.
func given(p reflect.Value) string {
	if p.IsNil() {
		return "absent"
	}
	return "given"
}
