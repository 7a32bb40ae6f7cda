package pattern

import (
	"regexp"
	"sync"
)

// Pattern is a regular expression that is compiled when it is first used. It is safe for concurrent use.
type Pattern struct {
	expr     string
	compiled func() *regexp.Regexp
}

// New is the pattern of an expression. A wrong one panics when it is first used, as it is part of the program.
func New(expr string) *Pattern {
	return &Pattern{expr, sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })}
}

// MatchString reports whether s contains a match.
func (p *Pattern) MatchString(s string) bool { return p.compiled().MatchString(s) }

// FindStringSubmatch is the leftmost match in s and those of its groups; nil if there is none.
func (p *Pattern) FindStringSubmatch(s string) []string { return p.compiled().FindStringSubmatch(s) }

// String is the expression.
func (p *Pattern) String() string { return p.expr }
