// Package jsonkeys tells tests whether JSON text gives a key twice.
package jsonkeys

import (
	"bytes"
	"encoding/json"
	"io"
)

// Twice is the oracle for the scanner: does any object of this JSON text
// have a key twice? It goes by encoding/json's tokens.
func Twice(body []byte) bool {
	type level struct {
		keys  map[string]bool // nil for an array
		value bool            // a key was read, its value comes next
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var stack []level
	for {
		token, err := d.Token()
		if err == io.EOF {
			return false
		}
		if err != nil {
			return false
		}
		if delim, ok := token.(json.Delim); ok && (delim == '}' || delim == ']') {
			stack = stack[:len(stack)-1]
			continue
		}
		if n := len(stack); n > 0 && stack[n-1].keys != nil {
			top := &stack[n-1]
			if !top.value {
				key := token.(string)
				if top.keys[key] {
					return true
				}
				top.keys[key], top.value = true, true
				continue
			}
			top.value = false
		}
		switch token {
		case json.Delim('{'):
			stack = append(stack, level{keys: map[string]bool{}})
		case json.Delim('['):
			stack = append(stack, level{})
		}
	}
}
