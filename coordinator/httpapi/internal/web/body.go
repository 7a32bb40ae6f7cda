package web

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

// Member is one field that the body of a request may have.
type Member struct {
	Name string
	// Read takes its value over, which is not null, or says what is wrong with it, as
	// what follows the name in a sentence.
	Read func(value json.RawMessage) (fault string)
}

// Text is a text; *into stays nil when it is not given.
func Text(name string, into **string) Member {
	return Member{name, func(value json.RawMessage) string {
		text, ok := stringOf(value)
		if !ok {
			return "is " + Kind(value) + ": it must be text"
		}
		*into = &text
		return ""
	}}
}

// Number is a number that is valid; *into stays nil when it is not given. must
// says which are, and whole that it has no fraction.
func Number(name string, into **float64, whole bool, valid func(float64) bool, must string) Member {
	return Member{name, func(value json.RawMessage) string {
		must := ": it must be " + must
		if kind := Kind(value); kind != "a number" {
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

// Truth is true or false; *into stays nil when it is not given.
func Truth(name string, into **bool) Member {
	return Member{name, func(value json.RawMessage) string {
		if err := json.Unmarshal(value, into); err != nil {
			return "is " + Kind(value) + ": it must be true or false"
		}
		return ""
	}}
}

// vanished reports whether a number that reads as 0 is none: too small for float64.
func vanished(number json.RawMessage) bool {
	digits, _, _ := bytes.Cut(bytes.ToLower(number), []byte("e"))
	return bytes.ContainsAny(digits, "123456789")
}

// Kind names the kind of a JSON value.
func Kind(value json.RawMessage) string {
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

// ReadBody reads a JSON object, or nothing if there is no body, and is strict: a
// misspelt key that is passed over would look like an answer to the order, and of a
// key that is given twice it is not known which is meant. null counts as not given.
// want says what the body must be. When it returns false it has answered.
func ReadBody(w http.ResponseWriter, r *http.Request, want string, members ...Member) bool {
	_, ok := ReadSomeBody(w, r, want, members...)
	return ok
}

// ReadSomeBody is readBody that also returns whether there was a body.
func ReadSomeBody(w http.ResponseWriter, r *http.Request, want string, members ...Member) (some, ok bool) {
	body, ok := Whole(w, r.Body, "Body too large", "body", "; it must be "+want+".")
	if !ok || len(body) == 0 {
		return !ok, ok
	}
	switch fault, err := ReadMembers(body, members); {
	case err != nil:
		BadBody(w, want+", as JSON in UTF-8")
		return true, false
	case fault != "":
		BadBody(w, want+"; "+fault)
		return true, false
	}
	return true, true
}

// Whole reads a body to its end, or answers the request: of one that is larger than it may be with the title, and
// in words of the thing and what must be.
func Whole(w http.ResponseWriter, from io.Reader, title, thing, must string) ([]byte, bool) {
	body, err := io.ReadAll(from)
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		Problem(w, http.StatusRequestEntityTooLarge, title,
			fmt.Sprintf("The %s has more than %d bytes%s", thing, tooLarge.Limit, must))
	case err != nil:
		Problem(w, http.StatusBadRequest, "Body not readable", "The body did not arrive as a whole; send the request again.")
	}
	return body, err == nil
}

// BadBody answers a body that is not what it must be.
func BadBody(w http.ResponseWriter, must string) {
	Problem(w, http.StatusBadRequest, "Bad body", "The body must be "+must+".")
}

var errNoObject = errors.New("not a JSON object in UTF-8")

// ReadMembers hands the values of an object to its members. The error says that it is
// none; fault is what is wrong with the first member at fault.
func ReadMembers(body []byte, members []Member) (fault string, err error) {
	all, ok := object(body)
	if !ok {
		return "", errNoObject
	}
	seen := uint64(0) // a bit for each member: no object here has so many
	for key, value := range all {
		name, _ := stringOf(key)
		i := slices.IndexFunc(members, func(m Member) bool { return m.Name == name })
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
		if wrong := members[i].Read(value); wrong != "" {
			return name + " " + wrong, nil
		}
	}
	return "", nil
}

// MaxFieldName bounds what an answer repeats of a field's name, in bytes.
const MaxFieldName = 64

func unknownField(name string, members []Member) string {
	known := make([]string, len(members))
	for i, m := range members {
		known[i] = m.Name
		if strings.EqualFold(m.Name, name) {
			return strconv.Quote(name) + " differs from " + m.Name + " by letter case only"
		}
	}
	unknown := strconv.Quote(messages.Clean(name, MaxFieldName)) + " is no field of it"
	switch len(known) {
	case 0:
		return unknown
	case 1:
		return unknown + ", " + known[0] + " is"
	default:
		return unknown + ": known are " + Enumerate(known)
	}
}
