// Package identity tests a server with the Go clients of all services and tokens of a directory.
package identity

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue"
)

var ctx = context.Background()

// server is what conformance/identity/run has started.
var server = read()

type refusal struct{ Name, Token, Detail, Challenge string }

type description struct {
	Endpoints map[string]string
	CA        string
	Tokens    map[string]string
	Refused   []refusal
	client    *http.Client
}

func read() description {
	var found description
	text, err := os.ReadFile(os.Getenv("TEPUI_ENDPOINT"))
	if err == nil {
		err = json.Unmarshal(text, &found)
	}
	if err != nil {
		// The set-up compiles the tests and runs none of them.
		return found
	}
	authority, err := os.ReadFile(found.CA)
	if err != nil {
		panic(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority) {
		panic("the certificate authority cannot be read")
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	// Whatever the name of the host, it is this machine.
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		_, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		return new(net.Dialer).DialContext(ctx, network, net.JoinHostPort("127.0.0.1", port))
	}
	found.client = &http.Client{Transport: transport}
	return found
}

// fixedToken is a credential that has one token, whoever asks for what.
type fixedToken string

func (token fixedToken) GetToken(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error) {
	return azcore.AccessToken{Token: string(token), ExpiresOn: time.Now().Add(time.Hour)}, nil
}

func named(name string) fixedToken { return fixedToken(server.Tokens[name]) }

func options() azcore.ClientOptions {
	return azcore.ClientOptions{Retry: policy.RetryOptions{MaxRetries: -1}, Transport: server.client}
}

func tables(t *testing.T, token fixedToken) *aztables.ServiceClient {
	t.Helper()
	return must(aztables.NewServiceClient(server.Endpoints["table"], token, &aztables.ClientOptions{ClientOptions: options()}))(t)
}

func queues(t *testing.T, token fixedToken) *azqueue.ServiceClient {
	t.Helper()
	return must(azqueue.NewServiceClient(server.Endpoints["queue"], token, &azqueue.ClientOptions{ClientOptions: options()}))(t)
}

func blobs(t *testing.T, token fixedToken) *azblob.Client {
	t.Helper()
	return must(azblob.NewClient(server.Endpoints["blob"], token, &azblob.ClientOptions{ClientOptions: options()}))(t)
}

// hostStyle is the address of the blob service with the account in the name of the host: this client takes it from there to sign.
func hostStyle(t *testing.T) string {
	t.Helper()
	port := must(url.Parse(server.Endpoints["blob"]))(t).Port()
	return "https://devstoreaccount1.blob.localhost:" + port
}

func blobService(t *testing.T, token fixedToken) *service.Client {
	t.Helper()
	return must(service.NewClient(hostStyle(t), token, &service.ClientOptions{ClientOptions: options()}))(t)
}

// requests are a read and a write of each service.
func requests(t *testing.T, token fixedToken) map[string][2]func() error {
	t.Helper()
	name := uniqueName()
	return map[string][2]func() error{
		"table": {
			func() error { _, err := tables(t, token).NewListTablesPager(nil).NextPage(ctx); return err },
			func() error { _, err := tables(t, token).CreateTable(ctx, name, nil); return err },
		},
		"queue": {
			func() error { _, err := queues(t, token).NewListQueuesPager(nil).NextPage(ctx); return err },
			func() error { _, err := queues(t, token).CreateQueue(ctx, name, nil); return err },
		},
		"blob": {
			func() error { _, err := blobs(t, token).NewListContainersPager(nil).NextPage(ctx); return err },
			func() error { _, err := blobs(t, token).CreateContainer(ctx, name, nil); return err },
		},
	}
}

func uniqueName() string {
	random := make([]byte, 10)
	_, _ = rand.Read(random)
	return "sdk" + hex.EncodeToString(random)
}

// must fails the test if the call before it has failed.
func must[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// refused checks the status and the code of an answer, and returns it.
func refused(t *testing.T, err error, status int, code string) *http.Response {
	t.Helper()
	var answer *azcore.ResponseError
	if !errors.As(err, &answer) {
		t.Fatalf("not refused: %v", err)
	}
	if answer.StatusCode != status || answer.ErrorCode != code {
		t.Fatalf("%d %s instead of %d %s", answer.StatusCode, answer.ErrorCode, status, code)
	}
	return answer.RawResponse
}
