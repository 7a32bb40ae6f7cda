package web

import (
	"bytes"
	"encoding/json"
	"iter"
	"unicode/utf8"
)

// object gives the keys and values of a JSON object in their order, each as it is written; false:
// it is none, or not in UTF-8. Nothing is copied, and nothing read twice but to see that it is
// valid: a question about a call comes thousands of times a second.
func object(body []byte) (members iter.Seq2[[]byte, []byte], ok bool) {
	if !utf8.Valid(body) || !json.Valid(body) {
		return nil, false
	}
	at := skipSpace(body, 0)
	if body[at] != '{' {
		return nil, false
	}
	return func(yield func(key, value []byte) bool) {
		for at := skipSpace(body, at+1); body[at] != '}'; {
			end := stringEnd(body, at)
			key := body[at:end]
			at = skipSpace(body, skipSpace(body, end)+1) // behind the colon
			end = valueEnd(body, at)
			if !yield(key, body[at:end]) {
				return
			}
			if at = skipSpace(body, end); body[at] == ',' {
				at = skipSpace(body, at+1)
			}
		}
	}, true
}

func skipSpace(body []byte, at int) int {
	for at < len(body) && (body[at] == ' ' || body[at] == '\n' || body[at] == '\t' || body[at] == '\r') {
		at++
	}
	return at
}

// stringEnd is behind the string that begins at at.
func stringEnd(body []byte, at int) int {
	for at++; body[at] != '"'; at++ {
		if body[at] == '\\' {
			at++
		}
	}
	return at + 1
}

// valueEnd is behind the value that begins at at.
func valueEnd(body []byte, at int) int {
	switch body[at] {
	case '"':
		return stringEnd(body, at)
	case '{', '[':
		for depth := 0; ; {
			switch body[at] {
			case '"':
				at = stringEnd(body, at)
				continue
			case '{', '[':
				depth++
			case '}', ']':
				depth--
			}
			if at++; depth == 0 {
				return at
			}
		}
	}
	for at < len(body) && !bytes.ContainsRune([]byte(",}] \n\t\r"), rune(body[at])) {
		at++
	}
	return at
}

// stringOf is the text of a JSON string.
func stringOf(written []byte) (text string, ok bool) {
	if written[0] != '"' {
		return "", false
	}
	if bytes.IndexByte(written, '\\') < 0 {
		return string(written[1 : len(written)-1]), true
	}
	err := json.Unmarshal(written, &text)
	return text, err == nil
}
