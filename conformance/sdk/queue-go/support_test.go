// Package sdk tests a server with the Go client for queues.
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
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue"
)

const (
	account  = "devstoreaccount1"
	key      = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
	wrongKey = "d3Jvbmcga2V5IHdyb25nIGtleSB3cm9uZyBrZXkgd3Jvbmcga2V5IHdyb25nIGtleSB3cm9uZyBrZXkgd3Jvbmc="
)

var (
	ctx      = context.Background()
	endpoint = os.Getenv("TEPUI_ENDPOINT")
)

// options are new for every client: the library adds a client's credential to what it is given.
func options() *azqueue.ClientOptions {
	return &azqueue.ClientOptions{ClientOptions: azcore.ClientOptions{Retry: policy.RetryOptions{MaxRetries: -1}}}
}

func credential(t *testing.T, secret string) *azqueue.SharedKeyCredential {
	t.Helper()
	return must(azqueue.NewSharedKeyCredential(account, secret))(t)
}

func serviceAt(t *testing.T, url, secret string) *azqueue.ServiceClient {
	t.Helper()
	return must(azqueue.NewServiceClientWithSharedKeyCredential(url, credential(t, secret), options()))(t)
}

func service(t *testing.T) *azqueue.ServiceClient {
	t.Helper()
	return serviceAt(t, endpoint+"/", key)
}

func withToken(t *testing.T, name, token string) *azqueue.QueueClient {
	t.Helper()
	return must(azqueue.NewQueueClientWithNoCredential(endpoint+"/"+name+"?"+token, options()))(t)
}

func uniqueName() string {
	random := make([]byte, 10)
	_, _ = rand.Read(random)
	return "sdk" + hex.EncodeToString(random)
}

// newQueue makes a queue for one test.
func newQueue(t *testing.T) (*azqueue.QueueClient, string) {
	t.Helper()
	name := uniqueName()
	queue := service(t).NewQueueClient(name)
	must(queue.Create(ctx, nil))(t)
	t.Cleanup(func() { _, _ = queue.Delete(ctx, nil) })
	return queue, name
}

func put(t *testing.T, queue *azqueue.QueueClient, text string) *azqueue.EnqueuedMessage {
	t.Helper()
	return must(queue.EnqueueMessage(ctx, text, nil))(t).Messages[0]
}

func take(t *testing.T, queue *azqueue.QueueClient, number, visibility int32) []*azqueue.DequeuedMessage {
	t.Helper()
	return must(queue.DequeueMessages(ctx, &azqueue.DequeueMessagesOptions{NumberOfMessages: &number, VisibilityTimeout: &visibility}))(t).Messages
}

// texts are what is visible, without taking it.
func texts(t *testing.T, queue *azqueue.QueueClient) []string {
	t.Helper()
	found := []string{}
	for _, message := range must(queue.PeekMessages(ctx, &azqueue.PeekMessagesOptions{NumberOfMessages: pointer(int32(32))}))(t).Messages {
		found = append(found, text(message.MessageText))
	}
	return found
}

// text is empty where the client has found none.
func text(of *string) string {
	if of == nil {
		return ""
	}
	return *of
}

func count(t *testing.T, queue *azqueue.QueueClient) int32 {
	t.Helper()
	return *must(queue.GetProperties(ctx, nil))(t).ApproximateMessagesCount
}

func soon() time.Time { return time.Now().UTC().Add(10 * time.Minute) }

func pointer[T any](value T) *T { return &value }

// must fails the test unless the call went well: must(call())(t).
func must[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
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
