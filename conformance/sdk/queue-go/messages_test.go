package sdk

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue"
)

func TestPutTakeDelete(t *testing.T) {
	queue, _ := newQueue(t)
	sent := put(t, queue, "hello")
	equal(t, sent.ExpirationTime.Sub(*sent.InsertionTime), 7*24*time.Hour)
	message := must(queue.DequeueMessage(ctx, nil))(t).Messages[0]
	equal(t, []any{*message.MessageID, *message.MessageText, *message.DequeueCount}, []any{*sent.MessageID, "hello", int64(1)})
	equal(t, len(must(queue.DequeueMessage(ctx, nil))(t).Messages), 0)
	must(queue.DeleteMessage(ctx, *message.MessageID, *message.PopReceipt, nil))(t)
	equal(t, count(t, queue), int32(0))
}

func TestMissingQueue(t *testing.T) {
	_, err := service(t).NewQueueClient(uniqueName()).EnqueueMessage(ctx, "x", nil)
	refused(t, err, 404, "QueueNotFound")
}

func TestBatches(t *testing.T) {
	queue, _ := newQueue(t)
	for number := range 40 {
		put(t, queue, strconv.Itoa(number))
	}
	received := append(take(t, queue, 32, 300), take(t, queue, 32, 300)...)
	equal(t, len(received), 40)
	for number, message := range received {
		equal(t, *message.MessageText, strconv.Itoa(number))
	}
	equal(t, count(t, queue), int32(40))
	_, err := queue.DequeueMessages(ctx, &azqueue.DequeueMessagesOptions{NumberOfMessages: pointer(int32(33))})
	refused(t, err, 400, "OutOfRangeQueryParameterValue")
}

func TestPeek(t *testing.T) {
	queue, _ := newQueue(t)
	put(t, queue, "one")
	for range 2 {
		message := must(queue.PeekMessage(ctx, nil))(t).Messages[0]
		equal(t, []any{*message.MessageText, *message.DequeueCount}, []any{"one", int64(0)})
	}
}

func TestProgress(t *testing.T) {
	queue, _ := newQueue(t)
	put(t, queue, "step 0")
	message := take(t, queue, 1, 30)[0]
	receipt := *message.PopReceipt
	for step := range 4 {
		updated := must(queue.UpdateMessage(ctx, *message.MessageID, receipt, "step "+strconv.Itoa(step), &azqueue.UpdateMessageOptions{
			VisibilityTimeout: pointer(int32(300 * min(1, 3-step))),
		}))(t)
		if *updated.PopReceipt == receipt {
			t.Fatal("the receipt has not changed")
		}
		receipt = *updated.PopReceipt
	}
	again := take(t, queue, 1, 30)[0]
	equal(t, []any{*again.MessageText, *again.DequeueCount}, []any{"step 3", int64(2)})
}

func TestReceipts(t *testing.T) {
	queue, _ := newQueue(t)
	sent := put(t, queue, "x")
	first := take(t, queue, 1, 100)[0]
	second := must(queue.UpdateMessage(ctx, *first.MessageID, *first.PopReceipt, "y", &azqueue.UpdateMessageOptions{VisibilityTimeout: pointer(int32(100))}))(t)
	for _, old := range []*string{sent.PopReceipt, first.PopReceipt} {
		_, err := queue.DeleteMessage(ctx, *sent.MessageID, *old, nil)
		refused(t, err, 404, "MessageNotFound")
		_, err = queue.UpdateMessage(ctx, *sent.MessageID, *old, "stale", nil)
		refused(t, err, 404, "MessageNotFound")
	}
	_, err := queue.DeleteMessage(ctx, *sent.MessageID, "invalid", nil)
	refused(t, err, 400, "InvalidQueryParameterValue")
	must(queue.DeleteMessage(ctx, *sent.MessageID, *second.PopReceipt, nil))(t)
}

func TestVisibility(t *testing.T) {
	queue, _ := newQueue(t)
	must(queue.EnqueueMessage(ctx, "later", &azqueue.EnqueueMessageOptions{VisibilityTimeout: pointer(int32(600))}))(t)
	put(t, queue, "now")
	equal(t, len(take(t, queue, 32, 1)), 1)
	equal(t, texts(t, queue), []string{})
	time.Sleep(1200*time.Millisecond + clockTolerance)
	equal(t, *take(t, queue, 32, 30)[0].DequeueCount, int64(2))
}

func TestTimeToLive(t *testing.T) {
	queue, _ := newQueue(t)
	forever := must(queue.EnqueueMessage(ctx, "x", &azqueue.EnqueueMessageOptions{TimeToLive: pointer(int32(-1))}))(t).Messages[0]
	equal(t, forever.ExpirationTime.Year(), 9999)
	_, err := queue.EnqueueMessage(ctx, "x", &azqueue.EnqueueMessageOptions{TimeToLive: pointer(int32(-2))})
	refused(t, err, 400, "InvalidQueryParameterValue")
}

func TestClear(t *testing.T) {
	queue, _ := newQueue(t)
	put(t, queue, "x")
	message := take(t, queue, 1, 30)[0]
	must(queue.ClearMessages(ctx, nil))(t)
	equal(t, count(t, queue), int32(0))
	_, err := queue.DeleteMessage(ctx, *message.MessageID, *message.PopReceipt, nil)
	refused(t, err, 404, "MessageNotFound")
}

func TestTexts(t *testing.T) {
	for name, each := range map[string]string{
		"empty": "", "blanks": "  two  ", "lines": "a\nb", "carriage return": "a\r\nb", "markup": "<a>&amp;</a>", "unicode": "日本語 🎉 é",
		"base64": "aGVsbG8=", "largest": strings.Repeat("a", 65536), "largest of two bytes": strings.Repeat("é", 32768),
	} {
		t.Run(name, func(t *testing.T) {
			queue, _ := newQueue(t)
			put(t, queue, each)
			equal(t, texts(t, queue), []string{each})
			equal(t, text(take(t, queue, 1, 30)[0].MessageText), each)
		})
	}
	queue, _ := newQueue(t)
	_, err := queue.EnqueueMessage(ctx, strings.Repeat("a", 65537), nil)
	refused(t, err, 413, "RequestBodyTooLarge")
}
