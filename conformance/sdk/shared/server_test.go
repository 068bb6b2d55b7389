package sdk

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"os"
	"reflect"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
)

const (
	account  = "devstoreaccount1"
	key      = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
	wrongKey = "d3Jvbmcga2V5IHdyb25nIGtleSB3cm9uZyBrZXkgd3Jvbmcga2V5IHdyb25nIGtleSB3cm9uZyBrZXkgd3Jvbmc="
)

var (
	ctx      = context.Background()
	endpoint = os.Getenv("TEPUI_ENDPOINT")
	// Nodes that share a store keep messages hidden for so much longer.
	clockTolerance, _ = time.ParseDuration(os.Getenv("TEPUI_CLOCK_TOLERANCE_MS") + "ms")
)

func uniqueName() string {
	random := make([]byte, 10)
	_, _ = rand.Read(random)
	return "sdk" + hex.EncodeToString(random)
}

func soon() time.Time { return time.Now().UTC().Add(10 * time.Minute) }

func pointer[T any](value T) *T { return &value }

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// must fails the test unless the call went well: must(call())(t).
func must[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		ok(t, err)
		return value
	}
}

func equal(t *testing.T, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("got  %v\nwant %v", got, want)
	}
}

// refused fails the test unless the call was answered with this status and code.
func refused(t *testing.T, err error, status int, code string) {
	t.Helper()
	var response *azcore.ResponseError
	if !errors.As(err, &response) || response.StatusCode != status || response.ErrorCode != code {
		t.Fatalf("not refused with %d %s, but: %v", status, code, err)
	}
}
