package nearest

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// mostNearest bounds the names that are offered for one that is not known.
const mostNearest = 3

// synonyms are words that people use for a setting or field of another name. What is spelt like one of them is not
// meant where the name itself is not known: a model is no misspelt mode.
var synonyms = map[string][]string{
	"slots": {"max_concurrent_tasks"}, "workers": {"max_concurrent_tasks"}, "parallelism": {"max_concurrent_tasks"},
	"max_tasks": {"max_concurrent_tasks"},
	"skills":    {"capabilities", "required_capabilities"}, "caps": {"capabilities", "required_capabilities"},
	"tags": {"labels"}, "metadata": {"labels"}, "tenant": {"group", "group_id"}, "team": {"group", "group_id"},
	"model": {"estimated_usage"}, "provider": {"estimated_usage"}, "llm": {"estimated_usage"},
	"tokens": {"estimated_usage"},
	"data":   {"payload"}, "body": {"payload"}, "input": {"payload"}, "args": {"payload"}, "params": {"payload"},
	"arguments": {"payload"},
	"trace_id":  {"correlation_id"}, "due": {"deadline"}, "expires": {"deadline"}, "ttl": {"deadline", "timeout_seconds"},
}

// Names lists the known names that may have been meant by one that is not known: the one that is spelt most alike
// ("prioritiy": priority), else those that share a word with it ("timeout": timeout_seconds; "concurrency":
// max_concurrent_tasks), or begin with it ("prio": priority). At most 3; nil: none comes near.
func Names(got string, known []string) []string {
	if meant, is := synonyms[normalName(got)]; is {
		return slices.DeleteFunc(slices.Clone(meant), func(name string) bool { return !slices.Contains(known, name) })
	}
	best, least := "", 1+max(1, min(3, utf8.RuneCountInString(got)/3))
	name := normalName(got)
	for _, k := range known {
		if d := editDistance(name, normalName(k), least); d < least {
			best, least = k, d
		}
	}
	if best != "" {
		return []string{best}
	}
	var sharing []string
	for _, k := range known {
		if sharesWord(name, normalName(k)) {
			sharing = append(sharing, k)
		}
	}
	if len(sharing) > mostNearest { // a word that many have says nothing
		return nil
	}
	return sharing
}

// DidYouMean asks for the nearest of the known names: "did you mean priority?", "did you mean task_id or
// correlation_id?"; "" where none comes near.
func DidYouMean(got string, known []string) string {
	near := Names(got, known)
	switch n := len(near); n {
	case 0:
		return ""
	case 1:
		return "did you mean " + near[0] + "?"
	default:
		return "did you mean " + strings.Join(near[:n-1], ", ") + " or " + near[n-1] + "?"
	}
}

// shortest is the length from which the beginning of a name says which one it is.
const shortest = 3

// sharesWord reports whether all words of one of the names are among those of the other, as they are or with another
// ending, or the known one begins with the other.
func sharesWord(got, known string) bool {
	if len(got) >= shortest && strings.HasPrefix(known, got) {
		return true
	}
	return got != "" && (wordsIn(got, known) || wordsIn(known, got))
}

// wordsIn reports whether others has each word of a name.
func wordsIn(name, others string) bool {
	for word := range strings.SplitSeq(name, "_") {
		if !hasWord(others, word) {
			return false
		}
	}
	return true
}

func hasWord(name, word string) bool {
	for other := range strings.SplitSeq(name, "_") {
		if sameWord(word, other) {
			return true
		}
	}
	return false
}

// sameWord reports whether two words are equal, or have at least five letters at their beginning in common, and no
// more than three others.
func sameWord(a, b string) bool {
	same := 0
	for same < min(len(a), len(b)) && a[same] == b[same] {
		same++
	}
	return a == b || same >= 5 && len(a)-same <= 3 && len(b)-same <= 3
}

// longestName is the length of the longest name that there is; it bounds the work of editDistance.
const longestName = 128

// normalName makes spellings equal that people confuse: case, and dash for underscore.
func normalName(s string) string {
	return strings.ReplaceAll(strings.ToLower(s[:min(len(s), longestName)]), "-", "_")
}

// editDistance counts the insertions, deletions, replacements and exchanges of neighbouring characters that turn a
// into b, names of at most longestName each; limit if there are as many or more.
func editDistance(a, b string, limit int) int {
	if longer := len(a) - len(b); longer >= limit || -longer >= limit || max(len(a), len(b)) > longestName {
		return limit
	}
	var rows [3][longestName + 1]uint8
	before, last, row := &rows[0], &rows[1], &rows[2]
	for j := range len(b) + 1 {
		last[j] = uint8(j)
	}
	for i := 1; i <= len(a); i++ {
		row[0] = uint8(i)
		least := row[0]
		for j := 1; j <= len(b); j++ {
			replace := last[j-1]
			if a[i-1] != b[j-1] {
				replace++
			}
			row[j] = min(replace, last[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
			least = min(least, row[j])
		}
		if int(least) >= limit { // an exchange goes on from the row before, and costs one more
			return limit
		}
		before, last, row = last, row, before
	}
	return min(limit, int(last[len(b)]))
}
