package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// variables makes a getenv of a map.
func variables(set map[string]string) func(string) string {
	return func(name string) string { return set[name] }
}

func TestEnvironmentDefaults(t *testing.T) {
	env, err := ReadEnvironment(variables(nil))
	if err != nil {
		t.Fatal(err)
	}
	if got := env.RabbitMQURL.Reveal(); got != "amqp://guest:guest@localhost:5672/" {
		t.Errorf("URL %s", got)
	}
	if env.Port != 8551 || env.LogLevel != LogInfo || env.LogFormat != LogAuto || env.Strategy != "" {
		t.Errorf("got %+v", env)
	}
}

func TestEnvironmentValues(t *testing.T) {
	for value, want := range map[string]LogLevel{
		"DEBUG": LogDebug, "info": LogInfo, "Warn": LogWarn, "WARNING": LogWarn, "warning": LogWarn, "ERROR": LogError,
	} {
		if env, err := ReadEnvironment(variables(map[string]string{"LOG_LEVEL": value})); err != nil || env.LogLevel != want {
			t.Errorf("LOG_LEVEL=%s: got %s, %v", value, env.LogLevel, err)
		}
	}
	env, err := ReadEnvironment(variables(map[string]string{
		"RABBITMQ_URL": "amqps://u:p%40ss@broker.example:5671/prod", "COORDINATOR_PORT": "0",
		"LOG_FORMAT": "Console", "ASSIGNMENT_STRATEGY": "round_robin",
	}))
	if err != nil {
		t.Fatal(err)
	}
	if env.RabbitMQURL.Reveal() != "amqps://u:p%40ss@broker.example:5671/prod" || env.Port != 0 ||
		env.LogFormat != LogConsole || env.Strategy != "round_robin" {
		t.Errorf("got %+v", env)
	}
}

func TestEnvironmentFaultsComeTogether(t *testing.T) {
	_, err := ReadEnvironment(variables(map[string]string{
		"RABBITMQ_URL": "http://user:" + canary + "@host/", "RABBITMQ_URL_FILE": "/run/secrets/url",
		"COORDINATOR_PORT": "65536", "LOG_LEVEL": "TRACE", "LOG_FORMAT": "xml", "ASSIGNMENT_STRATEGY": "round-robin",
	}))
	var faults *Faults
	if !errors.As(err, &faults) {
		t.Fatalf("want *Faults, got %v", err)
	}
	want := strings.Join([]string{
		"environment: RABBITMQ_URL: does not begin with amqp:// or amqps://; write amqp://user:password@host:5672/vhost " +
			"(amqps:// for TLS), with special characters in user, password and vhost percent-encoded",
		"environment: RABBITMQ_URL_FILE: RABBITMQ_URL is set too; unset one of the two, so that it is clear which counts",
		`environment: COORDINATOR_PORT: must be a port from 1 to 65535, or 0 for any free one, not "65536"`,
		`environment: LOG_LEVEL: must be one of DEBUG, INFO, WARN, WARNING, ERROR, not "TRACE"`,
		`environment: LOG_FORMAT: must be json or console, not "xml"`,
		`environment: ASSIGNMENT_STRATEGY: no strategy is called "round-robin"; did you mean round_robin?`,
	}, "\n")
	if err.Error() != want {
		t.Errorf("got:\n%v\nwant:\n%s", err, want)
	}
}

// Whatever is wrong with a URL, the fault must not repeat it.
func TestEnvironmentFaultsHoldNoPartOfTheURL(t *testing.T) {
	for _, bad := range []string{
		canary, "amqp://user:" + canary + "@", "amqp://user:" + canary + "@host:port/", "amqp://user:" + canary + "%zz@host/",
		"amqp://user:" + canary + "@host:99999/", "amqp://user:" + canary + "@host\x7f/", "://" + canary, "amqp:" + canary,
		"amqp://user:" + canary + "/x@host/", " amqp://user:" + canary + "@host/",
	} {
		_, err := ReadEnvironment(variables(map[string]string{"RABBITMQ_URL": bad}))
		if err == nil {
			t.Errorf("%q is accepted", bad)
			continue
		}
		if leaks(err.Error()) {
			t.Errorf("%q: the fault repeats it: %v", bad, err)
		}
		path := filepath.Join(t.TempDir(), "url")
		if err := os.WriteFile(path, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		// The file is trimmed, so a leading space is no fault there.
		_, err = ReadEnvironment(variables(map[string]string{"RABBITMQ_URL_FILE": path}))
		if (err == nil) != strings.HasPrefix(bad, " ") || err != nil && leaks(err.Error()) {
			t.Errorf("%q in a file: %v", bad, err)
		}
	}
	// The URL itself put where its file's name belongs.
	_, err := ReadEnvironment(variables(map[string]string{"RABBITMQ_URL_FILE": "amqp://user:" + canary + "@host/" +
		strings.Repeat("x", 5000)}))
	if err == nil || leaks(err.Error()) {
		t.Errorf("the fault repeats the file's name: %v", err)
	}
}

func TestURLFromFile(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := file("good", "amqp://u:p@host:5672/\n")
	tests := []struct{ name, path, want, wantErr string }{
		{"trimmed", good, "amqp://u:p@host:5672/", ""},
		{"missing", filepath.Join(dir, "none"), "", "names a file that does not exist; mount the secret or correct the path"},
		{"directory", dir, "", "names a file that cannot be read: is a directory"},
		{"too large", file("large", strings.Repeat("x", 4097)), "",
			"names a file that is too large for a URL; it must hold the URL alone"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			env, err := ReadEnvironment(variables(map[string]string{"RABBITMQ_URL_FILE": test.path}))
			if test.wantErr == "" {
				if err != nil || env.RabbitMQURL.Reveal() != test.want {
					t.Errorf("got %s, %v", env.RabbitMQURL.Reveal(), err)
				}
				return
			}
			if want := "environment: RABBITMQ_URL_FILE: " + test.wantErr; err == nil || err.Error() != want {
				t.Errorf("got %v\nwant %s", err, want)
			}
		})
	}
	if _, err := ReadEnvironment(variables(map[string]string{"RABBITMQ_URL_FILE": file("empty", "")})); err == nil ||
		!strings.Contains(err.Error(), "the URL in the file does not begin with") {
		t.Errorf("an empty file gives %v", err)
	}
}

// Where the history is kept: off, a path or a database. What is wrong is told without a part of it.
func TestHistoryPlace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "history")
	if err := os.WriteFile(file, []byte("postgres://u:p@host/db\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ name, value, file, want, wantErr string }{
		{"nothing said", "", "", "", ""},
		{"off", "off", "", "off", ""},
		{"a file", "/var/lib/taskbus/history.db", "", "/var/lib/taskbus/history.db", ""},
		{"a database", "postgresql://u:p@host:5432/db?sslmode=disable", "", "postgresql://u:p@host:5432/db?sslmode=disable",
			""},
		{"in a file", "", file, "postgres://u:p@host/db", ""},
		{"twice", "off", file, "", "TASKBUS_HISTORY is set too"},
		{"a relative path", canary + ".db", "", "", "is neither off, nor an absolute path, nor a URL"},
		{"another database", "mysql://u:" + canary + "@host/db", "", "", "is a URL, but of no PostgreSQL database"},
		{"no URL", "postgres://u:" + canary + "%zz@host/db", "", "", "is not a URL"},
	} {
		t.Run(test.name, func(t *testing.T) {
			env, err := ReadEnvironment(variables(map[string]string{"TASKBUS_HISTORY": test.value,
				"TASKBUS_HISTORY_FILE": test.file}))
			switch {
			case test.wantErr != "":
				if err == nil || !strings.Contains(err.Error(), test.wantErr) || leaks(err.Error()) {
					t.Errorf("got %v, want %s", err, test.wantErr)
				}
			case err != nil || env.History.Reveal() != test.want:
				t.Errorf("got %s, %v", env.History.Reveal(), err)
			}
		})
	}
}
