package httpapi

import (
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"taskbus/coordinator"
	"taskbus/coordinator/gateway"
	"taskbus/coordinator/httpapi/calls"
	"taskbus/coordinator/view"
	"taskbus/tests/support/openapi"
)

var update = flag.Bool("update", false, "write the schemas of answers in schemas/openapi.yaml anew")

func document(t *testing.T) *openapi.Document {
	t.Helper()
	if *update { // it is part of the program: what is written is read by the next run
		t.Skip("run the test again without -update")
	}
	d, err := openapi.Read()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Every path and method of the server is in the document, and the other way round.
func TestOpenAPIHasEveryEndpoint(t *testing.T) {
	want := []string{"GET /"}
	a := &api{src: &fakeSource{}, permission: newPermission(nil), calls: calls.New(nil, calls.Options{})}
	for _, e := range a.endpoints(nil) {
		path := strings.ReplaceAll(e.path, "{id...}", "{id}")
		if e.read != nil {
			want = append(want, "GET "+path)
		}
		if e.change != nil {
			want = append(want, e.method+" "+path)
		}
		if e.remove != nil {
			want = append(want, "DELETE "+path)
		}
	}
	got := document(t).Operations()
	for _, o := range want {
		if !slices.Contains(got, o) {
			t.Errorf("schemas/openapi.yaml lacks %s, which endpoints.go has", o)
		}
	}
	for _, o := range got {
		if !slices.Contains(want, o) {
			t.Errorf("schemas/openapi.yaml has %s, which endpoints.go lacks", o)
		}
	}
}

// TestOpenAPISaysWhenToAskAgain: the document has Retry-After wherever it has 429, 503 or what stands for any
// refusal.
func TestOpenAPISaysWhenToAskAgain(t *testing.T) {
	text, err := os.ReadFile("../../schemas/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for line := range strings.Lines(string(text)) {
		if !regexp.MustCompile(`^ +("429"|"503"|Problem): \{`).MatchString(line) {
			continue
		}
		found++
		if !strings.Contains(line, "headers/Retry-After") && !regexp.MustCompile(`responses/(Busy|Refused)"`).
			MatchString(line) {
			t.Errorf("no Retry-After: %s", line)
		}
	}
	if found < 7 {
		t.Errorf("%d of them were found, want 7 or more", found)
	}
}

// answers are the types of what is answered; those inside them come along.
var answers = []any{
	view.LossAcknowledged{},
	gateway.Problem{}, gateway.QuotaProblem{}, calls.CallAnswer{}, view.Health{}, view.Readiness{}, view.Status{},
	view.TaskList{}, view.TaskSubmitted{},
	view.TaskExplanation{}, view.Prospect{}, view.Cancellation{}, view.CapabilityList{}, view.AgentStats{},
	view.Quotas{}, view.QuotaGroup{}, view.QuotaAgent{}, view.QuotaProvider{}, view.QuotaAnswer{}, view.QuotaControls{},
	view.QuotaChanged{}, view.DeadList{},
	view.DeadDone{},
	view.HistoryList{}, view.CostReport{}, view.Forecasts{}, view.Reconciled{}, view.Rebuilt{},
}

// The schemas of answers are those of the Go types.
func TestOpenAPISchemasAreTheTypes(t *testing.T) {
	const file, mark = "../../schemas/openapi.yaml", "-run OpenAPI -update\n"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, got, found := strings.Cut(string(text), mark)
	if !found {
		t.Fatalf("%s does not say where the schemas of answers begin", file)
	}
	s := schemaWriter{comments: commentsOf(t), seen: make(map[string]bool)}
	for _, v := range answers {
		s.add(reflect.TypeOf(v))
	}
	slices.Sort(s.done)
	want := strings.Join(s.done, "")
	if *update {
		if err := os.WriteFile(file, []byte(head+mark+want), 0o644); err != nil {
			t.Fatal(err)
		}
		t.Skip("written; run the test again without -update")
	}
	if got != want {
		t.Errorf(
			"%s is not what the types of this package say; write it with: go test ./coordinator/httpapi -run OpenAPI -update",
			file)
	}
}

// The fields that an operation of calls reads are those of its request in the document.
func TestOpenAPIHasTheFieldsOfCalls(t *testing.T) {
	text, err := os.ReadFile("../../schemas/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Paths map[string]struct {
			Post struct {
				RequestBody struct {
					Content map[string]struct {
						Schema struct {
							Ref string `yaml:"$ref"`
						}
					}
				} `yaml:"requestBody"`
			}
		}
		Components struct {
			Schemas map[string]struct{ Properties map[string]any }
		}
	}
	if err := yaml.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	for op := range coordinator.CallOp(coordinator.NumCallOps) {
		operation := document.Paths["/v1/quota/"+op.String()].Post
		_, schema, _ := strings.Cut(operation.RequestBody.Content["application/json"].Schema.Ref, "#/components/schemas/")
		got := slices.Sorted(maps.Keys(document.Components.Schemas[schema].Properties))
		if want := slices.Sorted(slices.Values(calls.Fields(op))); !slices.Equal(got, want) {
			t.Errorf("%s reads %v, the document has %v (%s)", op, want, got, schema)
		}
	}
}

// schemaWriter makes schemas of types.
type schemaWriter struct {
	comments map[string]string // of Type and Type.Field
	seen     map[string]bool
	done     []string
}

func (s *schemaWriter) add(t reflect.Type) {
	if s.seen[t.Name()] {
		return
	}
	s.seen[t.Name()] = true
	var b strings.Builder
	var required []string
	fmt.Fprintf(&b, "    %s:\n      type: object\n", t.Name())
	if about := s.comments[t.Name()]; about != "" {
		fmt.Fprintf(&b, "      description: %s\n", strconv.Quote(about))
	}
	var fields strings.Builder
	for _, f := range reflect.VisibleFields(t) {
		if f.Anonymous { // its fields come by themselves
			continue
		}
		owner := t
		if len(f.Index) > 1 {
			owner = t.FieldByIndex(f.Index[:len(f.Index)-1]).Type
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if options == "" {
			required = append(required, name)
		}
		schema := s.of(f.Type, options != "")
		if about := s.comments[owner.Name()+"."+f.Name]; about != "" {
			schema += ", description: " + strconv.Quote(about)
		}
		fmt.Fprintf(&fields, "        %s: {%s}\n", name, schema)
	}
	if len(required) > 0 {
		fmt.Fprintf(&b, "      required: [%s]\n", strings.Join(required, ", "))
	}
	b.WriteString("      properties:\n" + fields.String())
	s.done = append(s.done, b.String())
}

// of is the schema of a type, without braces. What is optional is never null: it is left out.
func (s *schemaWriter) of(t reflect.Type, optional bool) string {
	switch t {
	case reflect.TypeFor[time.Time]():
		return "type: string, format: date-time"
	case reflect.TypeFor[view.Number]():
		return "type: [number, 'null']"
	case reflect.TypeFor[json.RawMessage]():
		return "type: [object, array, string, number, boolean, 'null']"
	}
	switch t.Kind() {
	case reflect.Pointer:
		if optional {
			return s.of(t.Elem(), false)
		}
		return "anyOf: [{" + s.of(t.Elem(), false) + "}, {type: 'null'}]"
	case reflect.Slice:
		return "type: array, items: {" + s.of(t.Elem(), false) + "}"
	case reflect.Map:
		return "type: object, additionalProperties: {" + s.of(t.Elem(), false) + "}"
	case reflect.Struct:
		s.add(t)
		return `$ref: "#/components/schemas/` + t.Name() + `"`
	case reflect.String:
		return "type: string"
	case reflect.Bool:
		return "type: boolean"
	case reflect.Float64:
		return "type: number"
	default:
		return "type: integer"
	}
}

var manySpaces = regexp.MustCompile(`\s+`)

// commentsOf are what the sources say of types and their fields.
func commentsOf(t *testing.T) map[string]string {
	t.Helper()
	all := make(map[string]string)
	keep := func(name string, groups ...*ast.CommentGroup) {
		for _, g := range groups {
			if text := strings.TrimSpace(manySpaces.ReplaceAllString(g.Text(), " ")); text != "" && all[name] == "" {
				all[name] = text
			}
		}
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, more := range []string{"calls/*.go", "../gateway/*.go", "../view/*.go"} {
		names, err := filepath.Glob(more)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, names...)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		tree, err := parser.ParseFile(gotoken.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range tree.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range g.Specs {
				typed, ok := spec.(*ast.TypeSpec)
				if !ok {
					continue
				}
				keep(typed.Name.Name, typed.Doc, g.Doc)
				fields, ok := typed.Type.(*ast.StructType)
				if !ok {
					continue
				}
				for _, f := range fields.Fields.List {
					for _, name := range f.Names {
						keep(typed.Name.Name+"."+name.Name, f.Doc, f.Comment)
					}
				}
			}
		}
	}
	return all
}

// What is answered where a path can be read is what the document says, but where the source makes
// maps and lists, which the fake one does not.
func TestOpenAPIAnswersOfReads(t *testing.T) {
	d, h := document(t), New(&fakeSource{}, metrics, Options{})
	made := map[string]bool{"/health": true, "/status": true, "/v1/quota/explain": true}
	for _, e := range (&api{src: &fakeSource{}, permission: newPermission(nil),
		calls: calls.New(nil, calls.Options{})}).endpoints(nil) {
		if e.read == nil || made[e.path] {
			continue
		}
		template := strings.ReplaceAll(e.path, "{id...}", "{id}")
		resp := ask(h, http.MethodGet, strings.ReplaceAll(template, "{id}", "a"), "localhost")
		if err := d.Check(http.MethodGet, template, resp.StatusCode, resp.Header.Get("Content-Type"),
			[]byte(body(t, resp))); err != nil {
			t.Error(err)
		}
	}
}

// What the quota endpoints really answer, well or ill, is what the document says.
func TestOpenAPIAnswersOfQuotas(t *testing.T) {
	d := document(t)
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	full := &fakeSource{callAnswers: []coordinator.CallAnswer{{
		Standing: true, Agent: "a", Group: "g", Provider: "openai", Model: "gpt-4o", Pool: "openai",
		Amounts: coordinator.Amounts{1, 2, 3, 5, 7, 1}, Until: at, Borrowed: true,
		Limits: []coordinator.QuotaLeft{
			{Node: "pool/a", Dimension: coordinator.DimCost, Limit: "budget", Quota: 5, Left: 4, Window: time.Hour,
				Reset: time.Minute},
			{Node: "pool/a", Dimension: coordinator.DimRequests, Limit: "rate", Quota: 5, Left: 4, Window: time.Second,
				Reset: time.Second},
		},
	}}}
	down := granted()
	down.callErr = gateway.ErrCallsBusy
	number := func(n float64) *float64 { return &n }
	node := view.QuotaNode{ID: "pool/g", Kind: "group", Name: "g", Parent: "pool", Weight: 1,
		Concurrency: &view.QuotaConcurrency{Limit: 3, Running: 1, Available: 2},
		Budgets: []view.QuotaBudget{{Dimension: "total_tokens", Limit: *number(5), Period: "2026-03", PeriodFrom: at,
			ResetTime: at}}, Rates: []view.QuotaRate{{Dimension: "requests", Amount: 5, PerSeconds: 1, Burst: 5, Ceiling: 9}}}
	agent := node
	agent.ID, agent.Kind, agent.Name, agent.Parent = "pool/g/a", "agent", "a", "pool/g"
	provider := view.QuotaNode{ID: "openai", Kind: "pool", Name: "openai", Weight: 1, Budgets: []view.QuotaBudget{},
		Rates: []view.QuotaRate{}}
	trees := &fakeSource{quotas: view.Quotas{Configured: true, Nodes: []view.QuotaNode{node, agent, provider},
		TotalNodes: 3,
		Groups:     []view.QuotaTurns{{Group: "g", Waiting: 1}}},
		quotaAnswer: view.QuotaAnswer{Group: "g", GroupKnown: true, Amounts: map[string]float64{"requests": 1},
			Node:      "pool/g",
			Dimension: "requests", Limit: "rate", RetryAt: at,
			Nodes: []string{"pool/g"}, Limits: []view.QuotaLimit{{Node: "pool/g", Dimension: "requests", Limit: "rate",
				Refuses: true,
				Binds:   true, Renews: at}}}}
	none := &fakeSource{quotasErr: ErrNoQuotas}
	checked := make(map[string]map[int]bool)
	check := func(src *fakeSource, template string, req request) {
		t.Helper()
		resp := changeWith(src, callOptions, req)
		if err := d.Check(req.method, template, resp.StatusCode, resp.Header.Get("Content-Type"),
			[]byte(body(t, resp))); err != nil {
			t.Error(err)
		}
		if checked[template] == nil {
			checked[template] = make(map[int]bool)
		}
		checked[template][resp.StatusCode] = true
	}
	for _, op := range []string{"reserve", "extend", "settle", "release", "check", "consume"} {
		path := "/v1/quota/" + op
		for _, src := range []*fakeSource{granted(), full, refusedBy(coordinator.CallRefused),
			refusedBy(coordinator.CallNever), refusedBy(coordinator.CallUnknown),
			refusedBy(coordinator.CallEnded), refusedBy(coordinator.CallForeign), down} {
			check(src, path, request{http.MethodPost, path, `{"reservation_id": "r-1", "agent_id": "a"}`,
				[][2]string{asGateway}})
		}
		check(granted(), path, request{http.MethodPost, path, `{"reservation_id": "r-1"}`, nil})
		check(granted(), path, request{http.MethodPost, path, `[]`, [][2]string{asGateway}})
		check(granted(), path, request{http.MethodPost, path, `{}`, [][2]string{asGateway, {"Content-Type", "text/xml"}}})
		check(granted(), path, request{http.MethodPost, path, strings.Repeat(" ", calls.MaxCallBody+1),
			[][2]string{asGateway}})
	}
	for _, path := range []string{"/v1/quota/auth", "/v1/quota/auth/settle"} {
		for _, src := range []*fakeSource{granted(), full, refusedBy(coordinator.CallRefused),
			refusedBy(coordinator.CallNever), refusedBy(coordinator.CallForeign), down} {
			check(src, path, request{http.MethodGet, path, "", [][2]string{asGateway, {"X-Quota-Reservation", "r-1"},
				{"X-Quota-Agent", "a"}}})
		}
		check(granted(), path, request{http.MethodGet, path, "", nil})
	}
	for _, p := range [][2]string{
		{"/v1/quota", "/v1/quota"}, {"/v1/quota/nodes/{id}", "/v1/quota/nodes/pool/g"},
		{"/v1/quota/groups/{id}", "/v1/quota/groups/g"},
		{"/v1/quota/agents/{id}", "/v1/quota/agents/a"}, {"/v1/quota/providers/{id}", "/v1/quota/providers/openai"},
		{"/v1/quota/explain", "/v1/quota/explain"},
	} {
		check(trees, p[0], request{http.MethodGet, p[1], "", nil})
		check(none, p[0], request{http.MethodGet, p[1], "", nil})
		check(none, p[0], request{http.MethodGet, p[1] + "?what=1", "", nil})
	}
	check(&fakeSource{}, "/openapi.yaml", request{http.MethodGet, "/openapi.yaml", "", nil})
	// The test itself: it has seen what it says it has.
	for template, statuses := range map[string][]int{
		"/v1/quota/reserve": {200, 400, 401, 403, 404, 409, 413, 415, 422, 429, 503}, "/v1/quota/auth": {200, 401, 403},
		"/v1/quota/agents/{id}": {200, 400, 404},
		"/v1/quota/explain":     {200, 400, 404}, "/v1/quota/providers/{id}": {200, 404},
	} {
		for _, s := range statuses {
			if !checked[template][s] {
				t.Errorf("no answer %d of %s was held to the document", s, template)
			}
		}
	}
	if err := d.Check("POST", "/v1/quota/reserve", 200, "application/json",
		[]byte(`{"reservation_id": "r", "granted": true, "new": 1}`)); err == nil {
		t.Error("a member that the document does not know was not noticed")
	}
}
