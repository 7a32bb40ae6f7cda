package web

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

var errBadQuery = errors.New("the query string is not valid; reserved characters are percent-encoded")

// Parameters gives the parameters of a query by name. It is strict: a misspelt
// parameter that is passed over would look like an answer to the question. known
// are the names there are; those that are not given are absent.
func Parameters(query string, known ...string) (map[string]string, error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, errBadQuery
	}
	found := make(map[string]string, len(values))
	for name, given := range values {
		switch {
		case len(known) == 0:
			return nil, errors.New("unknown parameter; this endpoint knows none")
		case !slices.Contains(known, name):
			return nil, fmt.Errorf("unknown parameter; known are %s", Enumerate(known))
		case len(given) > 1:
			return nil, fmt.Errorf("a parameter is given %d times; give it once", len(given))
		case !utf8.ValidString(given[0]):
			return nil, fmt.Errorf("%s is not text in UTF-8", name)
		}
		found[name] = given[0]
	}
	return found, nil
}

// Limit reads the parameter limit, of 1 to most; standard where it is not given.
func Limit(text string, given bool, standard, most int) (int, error) {
	if !given {
		return standard, nil
	}
	limit, err := strconv.Atoi(text)
	if err != nil || limit < 1 || limit > most {
		return 0, fmt.Errorf("limit must be a whole number from 1 to %d", most)
	}
	return limit, nil
}

// Unasked lets a request through that has no parameters, or answers it.
func Unasked(w http.ResponseWriter, r *http.Request) bool {
	if _, err := Parameters(r.URL.RawQuery); err != nil {
		BadQuery(w, err)
		return false
	}
	return true
}

// Plain is an endpoint that has no parameters.
func Plain(serve http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if Unasked(w, r) {
			serve(w, r)
		}
	}
}

func BadQuery(w http.ResponseWriter, err error) {
	Problem(w, http.StatusBadRequest, "Bad query", err.Error()+".")
}

// Scraping lets requests through that have no parameters but those of metrics: which to
// give, by name, as often as wanted.
func Scraping(metrics http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		values, err := url.ParseQuery(r.URL.RawQuery)
		delete(values, "name[]")
		switch {
		case err != nil:
			BadQuery(w, errBadQuery)
		case len(values) > 0:
			BadQuery(w, errors.New("unknown parameter; known is name[]"))
		default:
			metrics.ServeHTTP(w, r)
		}
	}
}

// Enumerate joins words as in a sentence: "a, b and c".
func Enumerate(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " and " + words[last]
}
