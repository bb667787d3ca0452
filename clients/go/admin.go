package mayflydb

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Move says what a move of the clock did.
type Move struct {
	Now     time.Time `json:"now"`
	Expired int       `json:"expired"`
	Purged  int       `json:"purged"`
	// ByTarget has the targets that have any.
	ByTarget map[string]struct{ Expired, Purged int } `json:"by_target"`
}

// Expired is one record that age removed.
type Expired struct {
	// Target is its container: cosmos:shop/sessions, mongo:app.otps, ydb:/local/carts.
	Target string `json:"target"`
	ID     string `json:"id"`
	// PK is the value of the partition key, and nil for documents of MongoDB.
	PK any `json:"pk"`
	// Due is its deadline.
	Due      time.Time `json:"due"`
	PurgedAt time.Time `json:"purged_at"`
	// Reason is the rule: the container's "default", the "item"'s own ttl, a date "index", or a TTL "column".
	Reason string `json:"reason"`
}

// Error is a refusal of the admin API: its problem document.
type Error struct {
	Status int    `json:"status"`
	Title  string `json:"title"`
	Detail string `json:"detail"`
	// Hint is the next thing to try, and often empty.
	Hint string `json:"hint"`
}

func (e *Error) Error() string {
	text := fmt.Sprintf("%d %s", e.Status, e.Title)
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	if e.Hint != "" {
		text += "; " + e.Hint
	}
	return text
}

// Now returns the time of the server's clock. It stands still until it is moved.
func (s *Server) Now(ctx context.Context) (time.Time, error) {
	var clock struct{ Now time.Time }
	err := s.Call(ctx, http.MethodGet, "clock", nil, &clock)
	return clock.Now, err
}

// Advance moves the clock through every deadline on the way, and returns when all that it makes due is purged.
func (s *Server) Advance(ctx context.Context, by time.Duration) (Move, error) {
	return s.move(ctx, "advance", map[string]any{"by": spanOf(by)})
}

// AdvanceToNextExpiry moves the clock to the next deadline, if there is one.
func (s *Server) AdvanceToNextExpiry(ctx context.Context) (Move, error) {
	return s.move(ctx, "advance", map[string]any{"to": "next-expiry"})
}

// Set moves the clock to an instant. An earlier one is refused while anything newer is stored.
func (s *Server) Set(ctx context.Context, to time.Time) (Move, error) {
	return s.move(ctx, "set", map[string]any{"to": to.UTC().Format(time.RFC3339Nano), "force": true})
}

// Freeze stops the clock.
func (s *Server) Freeze(ctx context.Context) error {
	return s.Call(ctx, http.MethodPost, "clock/freeze", nil, nil)
}

// Resume lets the clock tick.
func (s *Server) Resume(ctx context.Context) error {
	return s.Call(ctx, http.MethodPost, "clock/resume", nil, nil)
}

// NextExpiry returns the next deadline; false: no record expires before the year 10000.
func (s *Server) NextExpiry(ctx context.Context) (time.Time, bool, error) {
	var clock struct {
		NextExpiry *string `json:"next_expiry"`
	}
	err := s.Call(ctx, http.MethodGet, "clock", nil, &clock)
	if err != nil || clock.NextExpiry == nil || strings.HasPrefix(*clock.NextExpiry, "after") {
		return time.Time{}, false, err
	}
	due, err := time.Parse(time.RFC3339Nano, *clock.NextExpiry)
	return due, err == nil, err
}

// Purge removes what is due now, whatever the schedule, and returns how many records. target "" is everything.
func (s *Server) Purge(ctx context.Context, target string) (int, error) {
	var answer struct{ Purged int }
	err := s.Call(ctx, http.MethodPost, "purge", scope(target), &answer)
	return answer.Purged, err
}

// Reset deletes everything and puts the clock back to its start; with a target it deletes that alone.
func (s *Server) Reset(ctx context.Context, target string) error {
	return s.Call(ctx, http.MethodPost, "reset", scope(target), nil)
}

// Expired lists the records that age removed since the last reset, in the order of their purges. target "" is everything.
func (s *Server) Expired(ctx context.Context, target string) ([]Expired, error) {
	found := []Expired{}
	for after := 0; ; {
		query := url.Values{"after": {strconv.Itoa(after)}}
		if target != "" {
			query.Set("target", target)
		}
		var page struct {
			Events []Expired
			Last   int
		}
		if err := s.Call(ctx, http.MethodGet, "events/expired?"+query.Encode(), nil, &page); err != nil {
			return nil, err
		}
		found = append(found, page.Events...)
		if page.Last == after {
			return found, nil
		}
		after = page.Last
	}
}

// Certificate returns the certificate authority in PEM, for clients that use https.
func (s *Server) Certificate(ctx context.Context) ([]byte, error) {
	return s.request(ctx, http.MethodGet, "cert", nil)
}

// Call calls an operation of the admin API by its path below /_mayfly, and decodes its answer unless into is nil.
func (s *Server) Call(ctx context.Context, method, path string, body, into any) error {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return err
		}
	}
	said, err := s.request(ctx, method, path, text)
	if err != nil || into == nil {
		return err
	}
	return json.Unmarshal(said, into)
}

func (s *Server) request(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	limited, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	said, err := s.exchange(limited, method, path, body)
	if limited.Err() != nil && ctx.Err() == nil {
		return nil, fmt.Errorf("no answer to %s %s within %s: %w", method, path, s.patience, limited.Err())
	}
	return said, err
}

func (s *Server) exchange(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, s.Admin+"/"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if len(body) > 0 {
		request.Header.Set("Content-Type", "application/json")
	}
	answer, err := s.http.Do(request)
	if err != nil {
		return nil, err
	}
	return read(answer)
}

// read reads an answer to its end; a refusal is an Error.
func read(answer *http.Response) ([]byte, error) {
	defer func() { _ = answer.Body.Close() }()
	said, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode < 300 {
		return said, err
	}
	refusal := &Error{}
	if json.Unmarshal(said, refusal) != nil {
		refusal.Detail = string(said)
	}
	refusal.Status = answer.StatusCode
	return nil, refusal
}

func (s *Server) move(ctx context.Context, how string, body any) (Move, error) {
	var answer Move
	err := s.Call(ctx, http.MethodPost, "clock/"+how, body, &answer)
	return answer, err
}

func scope(target string) map[string]any {
	if target == "" {
		return map[string]any{}
	}
	return map[string]any{"target": target}
}
