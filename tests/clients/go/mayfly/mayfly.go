// Package mayfly knows the server under test: its addresses, and its clock.
package mayfly

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync/atomic"
	"testing"
	"time"
)

// Patience bounds every call of a client.
const Patience = 60 * time.Second

var made atomic.Int64

// Address is what the runner says of the server under a name; without it the test fails.
func Address(t testing.TB, name string) string {
	t.Helper()
	value := os.Getenv("MAYFLY_" + name)
	if value == "" {
		t.Fatalf("MAYFLY_%s is not set: run `make test ONLY=clients`", name)
	}
	return value
}

// Context ends with the test, or when its patience does.
func Context(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	t.Cleanup(cancel)
	return ctx
}

// Name is one that no other test has, be it of another process.
func Name(prefix string) string {
	return fmt.Sprintf("%s_%d_%d", prefix, os.Getpid(), made.Add(1))
}

// Advance moves the server's clock, and returns when everything that was due is done.
func Advance(t testing.TB, by time.Duration) {
	t.Helper()
	post(t, "/clock/advance", map[string]any{"by": fmt.Sprintf("%dms", by.Milliseconds())})
}

// Now is the server's time.
func Now(t testing.TB) time.Time {
	t.Helper()
	answer, err := http.Get(Address(t, "ADMIN") + "/clock")
	var clock struct{ Now time.Time }
	if err := json.Unmarshal(body(t, answer, err), &clock); err != nil {
		t.Fatal(err)
	}
	return clock.Now
}

func post(t testing.TB, path string, given any) {
	t.Helper()
	text, err := json.Marshal(given)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.Post(Address(t, "ADMIN")+path, "application/json", bytes.NewReader(text))
	body(t, answer, err)
}

func body(t testing.TB, answer *http.Response, err error) []byte {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	said, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%d %s %v", answer.StatusCode, said, err)
	}
	return said
}
