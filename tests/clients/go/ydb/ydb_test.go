// Package ydb drives ydb-go-sdk.
package ydb

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	sdk "github.com/ydb-platform/ydb-go-sdk/v3"
	"github.com/ydb-platform/ydb-go-sdk/v3/query"
	"github.com/ydb-platform/ydb-go-sdk/v3/table"
	"github.com/ydb-platform/ydb-go-sdk/v3/table/result/named"
	"github.com/ydb-platform/ydb-go-sdk/v3/table/types"

	"clients/mayfly"
)

// run is the time between two of them over a table.
const run = time.Hour

func connected(t *testing.T, address string) *sdk.Driver {
	t.Helper()
	driver, err := sdk.Open(mayfly.Context(t), mayfly.Address(t, address))
	check(t, err)
	t.Cleanup(func() { _ = driver.Close(context.Background()) })
	return driver
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// made is a driver, and a table of these columns beside id.
func made(t *testing.T, columns string) (*sdk.Driver, string) {
	t.Helper()
	driver, name := connected(t, "YDB"), mayfly.Name("go")
	check(t, driver.Query().Exec(mayfly.Context(t), fmt.Sprintf("CREATE TABLE %s (id Uint64 NOT NULL, %s", name, columns)))
	return driver, name
}

func ids(t *testing.T, driver *sdk.Driver, name string) []uint64 {
	t.Helper()
	ctx := mayfly.Context(t)
	found, err := driver.Query().Query(ctx, "SELECT id FROM "+name+" ORDER BY id")
	check(t, err)
	defer found.Close(ctx)
	list := []uint64{}
	for set, err := range found.ResultSets(ctx) {
		check(t, err)
		for row, err := range set.Rows(ctx) {
			check(t, err)
			var id uint64
			check(t, row.Scan(&id))
			list = append(list, id)
		}
	}
	return list
}

// TestTTL goes through types and units: a row is seen up to its deadline, and until the run after it.
func TestTTL(t *testing.T) {
	for _, row := range []struct {
		name, column, unit, value string
		never                     bool
	}{
		{"YT2_datetime", "Datetime", "", "CAST(%du AS Datetime)", false},
		{"YT2_timestamp", "Timestamp", "", "CAST(%d000000ul AS Timestamp)", false},
		{"YT3_seconds", "Uint64", " AS SECONDS", "%dul", false},
		{"YT3_seconds_of_32_bits", "Uint32", " AS SECONDS", "%du", false},
		{"YT3_milliseconds", "Uint64", " AS MILLISECONDS", "%d000ul", false},
		{"YT3_microseconds", "Uint64", " AS MICROSECONDS", "%d000000ul", false},
		{"YT3_nanoseconds", "Uint64", " AS NANOSECONDS", "%d000000000ul", false},
		{"null", "Timestamp", "", "NULL", true},
	} {
		t.Run(row.name, func(t *testing.T) {
			with := fmt.Sprintf("at %s, PRIMARY KEY (id)) WITH (TTL = Interval(\"PT60S\") ON at%s)", row.column, row.unit)
			driver, name := made(t, with)
			value := row.value
			if !row.never {
				value = fmt.Sprintf(row.value, mayfly.Now(t).Unix())
			}
			check(t, driver.Query().Exec(mayfly.Context(t), "UPSERT INTO "+name+" (id, at) VALUES (1, "+value+")"))
			mayfly.Advance(t, 59*time.Second)
			if found := ids(t, driver, name); len(found) != 1 {
				t.Fatalf("%v a second before its deadline", found)
			}
			mayfly.Advance(t, time.Second+run)
			if found := ids(t, driver, name); (len(found) == 1) != row.never {
				t.Fatalf("%v after the run", found)
			}
		})
	}
}

func TestListsOfStructs(t *testing.T) {
	ctx := mayfly.Context(t)
	driver, name := made(t, "text Utf8, PRIMARY KEY (id))")
	rows := make([]types.Value, 50)
	for n := range rows {
		id, text := types.Uint64Value(uint64(n)), types.TextValue(fmt.Sprintf("row %d", n))
		rows[n] = types.StructValue(types.StructFieldValue("id", id), types.StructFieldValue("text", text))
	}
	parameters := sdk.ParamsBuilder().Param("$rows").Any(types.ListValue(rows...)).Build()
	text := "UPSERT INTO " + name + " SELECT id, text FROM AS_TABLE($rows)"
	check(t, driver.Query().Exec(ctx, text, query.WithParameters(parameters)))
	if found := ids(t, driver, name); len(found) != 50 || found[49] != 49 {
		t.Fatal(found)
	}
	one := sdk.ParamsBuilder().Param("$id").Uint64(7).Build()
	row, err := driver.Query().QueryRow(ctx, "SELECT text FROM "+name+" WHERE id = $id", query.WithParameters(one))
	check(t, err)
	var got *string
	check(t, row.ScanNamed(query.Named("text", &got)))
	if got == nil || *got != "row 7" {
		t.Fatal(got)
	}
}

func TestTransactions(t *testing.T) {
	ctx := mayfly.Context(t)
	driver, name := made(t, "text Utf8, PRIMARY KEY (id))")
	gone := errors.New("changed its mind")
	err := driver.Query().DoTx(ctx, func(ctx context.Context, tx query.TxActor) error {
		if err := tx.Exec(ctx, "UPSERT INTO "+name+" (id) VALUES (1)"); err != nil {
			return err
		}
		return gone
	})
	if !errors.Is(err, gone) || len(ids(t, driver, name)) != 0 {
		t.Fatal(err)
	}
	check(t, driver.Query().DoTx(ctx, func(ctx context.Context, tx query.TxActor) error {
		for _, id := range []string{"1", "3"} {
			if err := tx.Exec(ctx, "UPSERT INTO "+name+" (id) VALUES ("+id+")"); err != nil {
				return err
			}
		}
		return nil
	}))
	if found := ids(t, driver, name); len(found) != 2 {
		t.Fatal(found)
	}
	if err = driver.Query().Exec(ctx, "INSERT INTO "+name+" (id) VALUES (1)"); !sdk.IsOperationError(err) {
		t.Fatal(err)
	}
}

// TestTables drives the older table service: bulk upserts, and queries with a declared parameter.
func TestTables(t *testing.T) {
	ctx := mayfly.Context(t)
	driver, name := made(t, "text Utf8, PRIMARY KEY (id))")
	path := driver.Name() + "/" + name
	rows := make([]types.Value, 1000)
	for n := range rows {
		id, text := types.Uint64Value(uint64(n)), types.TextValue("x")
		rows[n] = types.StructValue(types.StructFieldValue("id", id), types.StructFieldValue("text", text))
	}
	check(t, driver.Table().BulkUpsert(ctx, path, table.BulkUpsertDataRows(types.ListValue(rows...))))
	check(t, driver.Table().Do(ctx, func(ctx context.Context, session table.Session) error {
		text := "DECLARE $id AS Uint64; SELECT COUNT(*) AS n FROM " + name + " WHERE id >= $id"
		parameters := table.NewQueryParameters(table.ValueParam("$id", types.Uint64Value(900)))
		_, found, err := session.Execute(ctx, table.DefaultTxControl(), text, parameters)
		if err != nil {
			return err
		}
		defer found.Close()
		var count uint64
		for found.NextResultSet(ctx) {
			for found.NextRow() {
				if err := found.ScanNamed(named.Required("n", &count)); err != nil {
					return err
				}
			}
		}
		if count != 100 {
			return fmt.Errorf("%d rows", count)
		}
		return found.Err()
	}))
	check(t, driver.Table().Do(ctx, func(ctx context.Context, session table.Session) error {
		told, err := session.DescribeTable(ctx, path)
		if err == nil && (len(told.Columns) != 2 || told.PrimaryKey[0] != "id") {
			err = fmt.Errorf("%v", told)
		}
		return err
	}))
}

// TestTLS goes by SSL_CERT_FILE, from which Go reads the roots that it trusts.
func TestTLS(t *testing.T) {
	row, err := connected(t, "YDB_TLS").Query().QueryRow(mayfly.Context(t), "SELECT 42 AS n")
	check(t, err)
	var found int32
	check(t, row.Scan(&found))
	if found != 42 {
		t.Fatal(found)
	}
}
