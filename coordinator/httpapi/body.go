package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"taskbus/messages"
)

// member is one field that the body of a request may have.
type member struct {
	name string
	// read takes its value over, which is not null, or says what is wrong with it, as
	// what follows the name in a sentence.
	read func(value json.RawMessage) (fault string)
}

// textMember is a text; *into stays nil when it is not given.
func textMember(name string, into **string) member {
	return member{name, func(value json.RawMessage) string {
		text, ok := stringOf(value)
		if !ok {
			return "is " + kindOf(value) + ": it must be text"
		}
		*into = &text
		return ""
	}}
}

// numberMember is a number that is valid; *into stays nil when it is not given. must
// says which are, and whole that it has no fraction.
func numberMember(name string, into **float64, whole bool, valid func(float64) bool, must string) member {
	return member{name, func(value json.RawMessage) string {
		must := ": it must be " + must
		if kind := kindOf(value); kind != "a number" {
			return "is " + kind + must
		}
		// The only fault that JSON's grammar leaves is a number too large for float64.
		f, err := strconv.ParseFloat(string(value), 64)
		switch {
		case whole && err == nil && f != math.Trunc(f):
			return "is not a whole number" + must
		case err != nil || !valid(f) || f == 0 && vanished(value):
			return "is out of range" + must
		}
		*into = &f
		return ""
	}}
}

// vanished reports whether a number that reads as 0 is none: too small for float64.
func vanished(number json.RawMessage) bool {
	digits, _, _ := bytes.Cut(bytes.ToLower(number), []byte("e"))
	return bytes.ContainsAny(digits, "123456789")
}

// kindOf names the kind of a JSON value.
func kindOf(value json.RawMessage) string {
	switch value[0] {
	case '"':
		return "text"
	case '{':
		return "an object"
	case '[':
		return "a list"
	case 't', 'f':
		return "true or false"
	default:
		return "a number"
	}
}

// readBody reads a JSON object, or nothing if there is no body, and is strict: a
// misspelt key that is passed over would look like an answer to the order, and of a
// key that is given twice it is not known which is meant. null counts as not given.
// want says what the body must be. When it returns false it has answered.
func readBody(w http.ResponseWriter, r *http.Request, want string, members ...member) bool {
	_, ok := readSomeBody(w, r, want, members...)
	return ok
}

// readSomeBody is readBody that also returns whether there was a body.
func readSomeBody(w http.ResponseWriter, r *http.Request, want string, members ...member) (some, ok bool) {
	body, err := io.ReadAll(r.Body)
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		problem(w, http.StatusRequestEntityTooLarge, "Body too large",
			fmt.Sprintf("The body has more than %d bytes; it must be %s.", tooLarge.Limit, want))
		return true, false
	case err != nil:
		problem(w, http.StatusBadRequest, "Body not readable", "The body did not arrive as a whole; send the request again.")
		return true, false
	case len(body) == 0:
		return false, true
	}
	switch fault, err := readMembers(body, members); {
	case err != nil:
		badBody(w, want+", as JSON in UTF-8")
		return true, false
	case fault != "":
		badBody(w, want+"; "+fault)
		return true, false
	}
	return true, true
}

func badBody(w http.ResponseWriter, must string) {
	problem(w, http.StatusBadRequest, "Bad body", "The body must be "+must+".")
}

var errNoObject = errors.New("not a JSON object in UTF-8")

// readMembers hands the values of an object to its members. The error says that it is
// none; fault is what is wrong with the first member at fault.
func readMembers(body []byte, members []member) (fault string, err error) {
	all, ok := object(body)
	if !ok {
		return "", errNoObject
	}
	seen := uint64(0) // a bit for each member: no object here has so many
	for key, value := range all {
		name, _ := stringOf(key)
		i := slices.IndexFunc(members, func(m member) bool { return m.name == name })
		switch {
		case i < 0:
			return unknownField(name, members), nil
		case seen&(1<<i) != 0:
			return name + " is given twice: give it once", nil
		}
		seen |= 1 << i
		if string(value) == "null" {
			continue
		}
		if wrong := members[i].read(value); wrong != "" {
			return name + " " + wrong, nil
		}
	}
	return "", nil
}

// maxFieldName bounds what an answer repeats of a field's name, in bytes.
const maxFieldName = 64

func unknownField(name string, members []member) string {
	known := make([]string, len(members))
	for i, m := range members {
		known[i] = m.name
		if strings.EqualFold(m.name, name) {
			return strconv.Quote(name) + " differs from " + m.name + " by letter case only"
		}
	}
	unknown := strconv.Quote(messages.Clean(name, maxFieldName)) + " is no field of it"
	switch len(known) {
	case 0:
		return unknown
	case 1:
		return unknown + ", " + known[0] + " is"
	default:
		return unknown + ": known are " + enumerate(known)
	}
}
