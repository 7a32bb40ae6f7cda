package main

import (
	"strings"
	"testing"
)

// What projects and keys are called on a bill is for others to say: a comma is part of a name.
func TestNamesOfBillsInOneLine(t *testing.T) {
	got := inOneLine([]string{"gpt-4o-2024-08-06=gpt-4o", "Acme, Inc=team-a", `5" model=m`})
	if want := `gpt-4o-2024-08-06=gpt-4o,"Acme, Inc=team-a","5"" model=m"`; got != want || strings.Contains(got, "\n") {
		t.Errorf("got %s\nwant %s", got, want)
	}
}
