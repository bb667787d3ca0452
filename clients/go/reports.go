package mayflydb

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

// Seeded says what resource documents made.
type Seeded struct {
	Created int `json:"created"`
	Changed int `json:"changed"`
	Same    int `json:"same"`
}

// Snapshot is everything that was stored at an instant, with the clock.
type Snapshot struct {
	Name    string    `json:"name"`
	SavedAt time.Time `json:"saved_at"`
	Bytes   int64     `json:"bytes"`
}

// Stats are counts of what is stored; Records are visible ones.
type Stats struct {
	Databases  int `json:"databases"`
	Containers int `json:"containers"`
	Records    int `json:"records"`
}

// Change is a change of TTL settings, by the members of the admin API: {"default_ttl": 300}; nil is off, and -1 on without a
// default. An index or column has "index" or "column", and "expire_after_seconds".
type Change map[string]any

// Preview says what a change of TTL settings would expire.
type Preview struct {
	Records   int `json:"records"`
	ExpireNow int `json:"expire_now"`
	// ExpireWithin has the spans "1h", "1d" and "7d".
	ExpireWithin map[string]int `json:"expire_within"`
	OwnTTL       int            `json:"own_ttl"`
	Never        int            `json:"never"`
	// ReappearNow counts records that are hidden now, and visible under the new rules.
	ReappearNow int `json:"reappear_now"`
	// Exact is false where the counts are estimates.
	Exact bool `json:"exact"`
	// Sample has ids of records that would expire at once.
	Sample []string `json:"sample"`
}

// Forecast counts deadlines by bucket.
type Forecast struct {
	Buckets   []Bucket `json:"buckets"`
	DueNow    int      `json:"due_now"`
	InHorizon int      `json:"in_horizon"`
	Later     int      `json:"later"`
	Never     int      `json:"never"`
	Exact     bool     `json:"exact"`
}

// Bucket has the deadlines after From, up to To.
type Bucket struct {
	From  time.Time `json:"from"`
	To    time.Time `json:"to"`
	Count int       `json:"count"`
}

// Explanation says when and why one record expires, or why it does not.
type Explanation struct {
	// State is "alive", "hidden", or "due": expired, and visible until it is purged.
	State string `json:"state"`
	// Deadline is RFC 3339 or "after 9999", and empty where there is none.
	Deadline string `json:"deadline"`
	Reason   string `json:"reason"`
	Text     string `json:"text"`
}

// Seed makes what resource documents describe: paths of .json files, JSON as []byte or json.RawMessage, or values that are
// marshalled. What is there with the same content stays.
func (s *Server) Seed(ctx context.Context, sources ...any) (Seeded, error) {
	var all Seeded
	for _, source := range sources {
		document, err := documentOf(source)
		if err != nil {
			return all, err
		}
		var answer Seeded
		if err := s.Call(ctx, http.MethodPost, "apply", document, &answer); err != nil {
			return all, err
		}
		all.Created += answer.Created
		all.Changed += answer.Changed
		all.Same += answer.Same
	}
	return all, nil
}

func documentOf(source any) (any, error) {
	switch given := source.(type) {
	case []byte:
		return json.RawMessage(given), nil
	case string:
		if !strings.HasSuffix(strings.ToLower(given), ".json") {
			return nil, fmt.Errorf("Seed reads .json files, and not %s: mayfly apply reads TOML, YAML, YQL and folders", given)
		}
		text, err := os.ReadFile(given)
		return json.RawMessage(text), err
	default:
		return source, nil
	}
}

// Snapshot saves everything that is stored, and the clock, in the place of a snapshot of that name.
func (s *Server) Snapshot(ctx context.Context, name string) (Snapshot, error) {
	var answer Snapshot
	err := s.Call(ctx, http.MethodPut, snapshotPath(name), nil, &answer)
	return answer, err
}

// Restore replaces everything by a snapshot, and returns the clock to its instant.
func (s *Server) Restore(ctx context.Context, name string) error {
	return s.Call(ctx, http.MethodPost, snapshotPath(name)+"/restore", nil, nil)
}

// DeleteSnapshot deletes a snapshot.
func (s *Server) DeleteSnapshot(ctx context.Context, name string) error {
	return s.Call(ctx, http.MethodDelete, snapshotPath(name), nil, nil)
}

// Snapshots lists the snapshots. They outlive a reset.
func (s *Server) Snapshots(ctx context.Context) ([]Snapshot, error) {
	var answer struct{ Snapshots []Snapshot }
	err := s.Call(ctx, http.MethodGet, "snapshots", nil, &answer)
	return answer.Snapshots, err
}

func snapshotPath(name string) string { return "snapshots/" + url.PathEscape(name) }

// Stats counts what is stored.
func (s *Server) Stats(ctx context.Context) (Stats, error) {
	var answer Stats
	err := s.Call(ctx, http.MethodGet, "stats", nil, &answer)
	return answer, err
}

// Preview counts what a change of TTL settings would expire. It changes nothing.
func (s *Server) Preview(ctx context.Context, target string, change Change) (Preview, error) {
	body := map[string]any{"target": target}
	for name, value := range change {
		body[name] = value
	}
	var answer Preview
	err := s.Call(ctx, http.MethodPost, "ttl/preview", body, &answer)
	return answer, err
}

// Forecast counts deadlines from now to a horizon. target "" is everything.
func (s *Server) Forecast(ctx context.Context, horizon time.Duration, buckets int, target string) (Forecast, error) {
	query := url.Values{"horizon": {spanOf(horizon)}, "buckets": {strconv.Itoa(buckets)}}
	if target != "" {
		query.Set("target", target)
	}
	var answer Forecast
	err := s.Call(ctx, http.MethodGet, "ttl/forecast?"+query.Encode(), nil, &answer)
	return answer, err
}

// Explain says when and why one record expires, or why it does not. pk is the value of Cosmos DB's partition key; nil: none.
func (s *Server) Explain(ctx context.Context, target, id string, pk any) (Explanation, error) {
	query := url.Values{"target": {target}, "id": {id}}
	if pk != nil {
		text, err := json.Marshal(pk)
		if err != nil {
			return Explanation{}, err
		}
		query.Set("pk", string(text))
	}
	var answer Explanation
	err := s.Call(ctx, http.MethodGet, "ttl/explain?"+query.Encode(), nil, &answer)
	return answer, err
}

func spanOf(by time.Duration) string { return fmt.Sprintf("%dus", by.Microseconds()) }
