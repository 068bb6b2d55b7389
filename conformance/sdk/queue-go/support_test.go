// Package sdk tests a server with the Go client for queues.
package sdk

import (
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue"
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
