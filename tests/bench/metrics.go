package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// What the service tells under /metrics.

// metrics reads what the service shows to Prometheus, by name and labels.
func (s *subject) metrics(ctx context.Context) (all map[string]float64, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.http+"/metrics", nil)
	if err != nil {
		return nil, fmt.Errorf("ask %s for its metrics: %w", s.process.name, err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask %s for its metrics: %w", s.process.name, err)
	}
	defer func() { err = errors.Join(err, answer.Body.Close()) }()
	return parseMetrics(answer.Body)
}

// parseMetrics reads Prometheus' text format, without time stamps.
func parseMetrics(r io.Reader) (map[string]float64, error) {
	all := make(map[string]float64)
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		line := lines.Text()
		i := strings.LastIndexByte(line, ' ')
		if i < 0 || line[0] == '#' {
			continue
		}
		value, err := strconv.ParseFloat(line[i+1:], 64)
		if err != nil {
			return nil, fmt.Errorf("read the metric %q: %w", line[:i], err)
		}
		all[line[:i]] = value
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the metrics: %w", err)
	}
	return all, nil
}
