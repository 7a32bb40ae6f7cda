package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"
)

var errBadQuery = errors.New("the query string is not valid; reserved characters are percent-encoded")

// parameters gives the parameters of a query by name. It is strict: a misspelt
// parameter that is passed over would look like an answer to the question. known
// are the names there are; those that are not given are absent.
func parameters(query string, known ...string) (map[string]string, error) {
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
			return nil, fmt.Errorf("unknown parameter; known are %s", enumerate(known))
		case len(given) > 1:
			return nil, fmt.Errorf("a parameter is given %d times; give it once", len(given))
		case !utf8.ValidString(given[0]):
			return nil, fmt.Errorf("%s is not text in UTF-8", name)
		}
		found[name] = given[0]
	}
	return found, nil
}

// unasked lets a request through that has no parameters, or answers it.
func unasked(w http.ResponseWriter, r *http.Request) bool {
	if _, err := parameters(r.URL.RawQuery); err != nil {
		badQuery(w, err)
		return false
	}
	return true
}

// plain is an endpoint that has no parameters.
func plain(serve http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if unasked(w, r) {
			serve(w, r)
		}
	}
}

func badQuery(w http.ResponseWriter, err error) {
	problem(w, http.StatusBadRequest, "Bad query", err.Error()+".")
}

// scraping lets requests through whose parameters are those of metrics: which to
// give, by name, as often as wanted.
func scraping(metrics http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		values, err := url.ParseQuery(r.URL.RawQuery)
		delete(values, "name[]")
		switch {
		case err != nil:
			badQuery(w, errBadQuery)
		case len(values) > 0:
			badQuery(w, errors.New("unknown parameter; known is name[]"))
		default:
			metrics.ServeHTTP(w, r)
		}
	}
}

// enumerate joins words as in a sentence: "a, b and c".
func enumerate(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " and " + words[last]
}
