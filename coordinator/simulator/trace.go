package simulator

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"taskbus/config/yamlconf"
)

// traceFiles are the traces that have a name of their own.
var traceFiles = map[string]string{
	"azure-code": "AzureLLMInferenceTrace_code.csv",
	"azure-conv": "AzureLLMInferenceTrace_conv.csv",
}

// TraceFile is the name of the file that holds a trace: that of a known trace, or
// else the name itself.
func TraceFile(name string) string {
	if file, ok := traceFiles[name]; ok {
		return file
	}
	return name
}

// Request is one line of a trace.
type Request struct {
	// At is the time since the first request.
	At            time.Duration
	Input, Output float64 // tokens
}

// The columns of a trace, as the Azure Public Dataset names them.
var traceColumns = []string{"TIMESTAMP", "ContextTokens", "GeneratedTokens"}

// ReadTrace reads a trace of LLM requests: CSV with the columns TIMESTAMP
// (2006-01-02 15:04:05.9999999, in order), ContextTokens and GeneratedTokens.
func ReadTrace(r io.Reader) ([]Request, error) {
	lines := csv.NewReader(r)
	lines.ReuseRecord = true
	head, err := lines.Read()
	if err != nil {
		return nil, fmt.Errorf("read the header of the trace: %w", err)
	}
	var column [3]int
	for i, name := range traceColumns {
		if column[i] = slices.Index(head, name); column[i] < 0 {
			return nil, fmt.Errorf("the trace has no column %s; its header is %s", name, yamlconf.Echo(strings.Join(head, ",")))
		}
	}
	var trace []Request
	var first time.Time
	for {
		fields, err := lines.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read the trace: %w", err)
		}
		line, _ := lines.FieldPos(0)
		at, err := time.Parse("2006-01-02 15:04:05", fields[column[0]])
		if err != nil {
			return nil, fmt.Errorf("line %d of the trace: TIMESTAMP must be a time such as 2023-11-16 18:17:03.9799600, not %s",
				line, yamlconf.Echo(fields[column[0]]))
		}
		var q Request
		for i, into := range []*float64{&q.Input, &q.Output} {
			n, err := strconv.ParseUint(fields[column[i+1]], 10, 32)
			if err != nil {
				return nil, fmt.Errorf("line %d of the trace: %s must be a whole number from 0 to %d, not %s",
					line, traceColumns[i+1], uint32(math.MaxUint32), yamlconf.Echo(fields[column[i+1]]))
			}
			*into = float64(n)
		}
		if len(trace) == 0 {
			first = at
		}
		q.At = at.Sub(first)
		if n := len(trace); q.At < 0 || n > 0 && q.At < trace[n-1].At {
			return nil, fmt.Errorf("line %d of the trace is earlier than the one before it; sort it by TIMESTAMP", line)
		}
		trace = append(trace, q)
	}
	if len(trace) == 0 {
		return nil, errors.New("the trace has a header and no requests")
	}
	return trace, nil
}
