// Package sdk tests a server with the Go client for blobs.
package sdk

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io"
	"math/rand"
	"net/url"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/sas"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"
)

func noRetries() azcore.ClientOptions {
	return azcore.ClientOptions{Retry: policy.RetryOptions{MaxRetries: -1}}
}

func credential(t *testing.T, secret string) *service.SharedKeyCredential {
	t.Helper()
	return must(service.NewSharedKeyCredential(account, secret))(t)
}

func serviceBy(t *testing.T, secret string) *service.Client {
	t.Helper()
	options := &service.ClientOptions{ClientOptions: noRetries()}
	return must(service.NewClientWithSharedKeyCredential(endpoint+"/", credential(t, secret), options))(t)
}

func blobs(t *testing.T) *service.Client {
	t.Helper()
	return serviceBy(t, key)
}

// newContainer makes a container for one test.
func newContainer(t *testing.T) (*container.Client, string) {
	t.Helper()
	name := uniqueName()
	made := blobs(t).NewContainerClient(name)
	must(made.Create(ctx, nil))(t)
	t.Cleanup(func() { _, _ = made.Delete(ctx, nil) })
	return made, name
}

func content(size int, seed int64) []byte {
	data := make([]byte, size)
	rand.New(rand.NewSource(seed)).Read(data)
	return data
}

func body(data []byte) io.ReadSeekCloser { return streaming.NopCloser(bytes.NewReader(data)) }

func put(t *testing.T, in *container.Client, name, text string) *blockblob.Client {
	t.Helper()
	made := in.NewBlockBlobClient(name)
	must(made.Upload(ctx, body([]byte(text)), nil))(t)
	return made
}

// reader is what every kind of blob has.
type reader interface {
	DownloadStream(ctx context.Context, options *blob.DownloadStreamOptions) (blob.DownloadStreamResponse, error)
}

func read(t *testing.T, from reader, offset, count int64) []byte {
	t.Helper()
	answer := must(from.DownloadStream(ctx, &blob.DownloadStreamOptions{Range: blob.HTTPRange{Offset: offset, Count: count}}))(t)
	data := must(io.ReadAll(answer.Body))(t)
	ok(t, answer.Body.Close())
	return data
}

func text(t *testing.T, from reader) string {
	t.Helper()
	return string(read(t, from, 0, 0))
}

func same(t *testing.T, got, want []byte) {
	t.Helper()
	if len(got) != len(want) || sha256.Sum256(got) != sha256.Sum256(want) {
		t.Fatalf("got %d other bytes than the %d wanted", len(got), len(want))
	}
}

func names(t *testing.T, in *container.Client, options *container.ListBlobsFlatOptions) []string {
	t.Helper()
	found := []string{}
	for pager := in.NewListBlobsFlatPager(options); pager.More(); {
		for _, item := range must(pager.NextPage(ctx))(t).Segment.BlobItems {
			found = append(found, *item.Name)
		}
	}
	return found
}

// blobToken is a signature for one blob; without letters it names a policy.
func blobToken(t *testing.T, values sas.BlobSignatureValues, secret string) string {
	t.Helper()
	if values.ExpiryTime.IsZero() && values.Identifier == "" {
		values.ExpiryTime = soon()
	}
	signed := must(values.SignWithSharedKey(must(blob.NewSharedKeyCredential(account, secret))(t)))(t)
	return signed.Encode()
}

func withToken(t *testing.T, path, token string) *blockblob.Client {
	t.Helper()
	options := &blockblob.ClientOptions{ClientOptions: noRetries()}
	return must(blockblob.NewClientWithNoCredential(endpoint+"/"+path+"?"+token, options))(t)
}

// source is the address of a blob for a copy that reads it with a token.
func source(t *testing.T, containerName, name string) string {
	t.Helper()
	token := blobToken(t, sas.BlobSignatureValues{ContainerName: containerName, BlobName: name, Permissions: "r"}, key)
	return endpoint + "/" + containerName + "/" + url.PathEscape(name) + "?" + token
}

func inMinutes(minutes int) time.Time {
	return time.Now().UTC().Add(time.Duration(minutes) * time.Minute)
}
