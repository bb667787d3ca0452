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
	"strconv"
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

// Name is one that no other test of this process has.
func Name(prefix string) string {
	return prefix + strconv.FormatInt(made.Add(1), 10)
}

// Advance moves the server's clock, and returns when everything that was due is done.
func Advance(t testing.TB, by time.Duration) {
	t.Helper()
	post(t, "/clock/advance", map[string]any{"by": fmt.Sprintf("%dms", by.Milliseconds())})
}

// Purge removes what is due, whatever the schedule says.
func Purge(t testing.TB) {
	t.Helper()
	post(t, "/purge", map[string]any{})
}

func post(t testing.TB, path string, body any) {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.Post(Address(t, "ADMIN")+path, "application/json", bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	said, _ := io.ReadAll(answer.Body)
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d %s", path, answer.StatusCode, said)
	}
}
