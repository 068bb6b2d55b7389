package sdk

import (
	"bytes"
	"crypto/md5"
	"encoding/base64"
	"fmt"
	"sync"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/appendblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/lease"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/pageblob"
)

const piece = 256 * 1024

func id(number int) string {
	return base64.StdEncoding.EncodeToString([]byte(fmt.Sprintf("%04d", number)))
}

func ifMatch(tag *azcore.ETag) *blob.AccessConditions {
	return &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfMatch: tag}}
}

func ifNoneMatch(tag *azcore.ETag) *blob.AccessConditions {
	return &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfNoneMatch: tag}}
}

func TestUploadAndDownload(t *testing.T) {
	for _, size := range []int{0, 1, 100_000} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			client, _ := newContainer(t)
			data := content(size, 1)
			made := client.NewBlockBlobClient("dir/a ü")
			must(made.Upload(ctx, body(data), &blockblob.UploadOptions{
				HTTPHeaders: &blob.HTTPHeaders{BlobContentType: pointer("text/plain")}, Metadata: map[string]*string{"kind": pointer("x")},
			}))(t)
			same(t, read(t, made, 0, 0), data)
			found := must(made.GetProperties(ctx, nil))(t)
			sum := md5.Sum(data)
			equal(t, []any{*found.ContentLength, *found.ContentType, *found.Metadata["Kind"], found.ContentMD5}, []any{int64(size), "text/plain", "x", sum[:]})
		})
	}
}

func TestUploadInParallel(t *testing.T) {
	client, _ := newContainer(t)
	data := content(5*piece+17, 2)
	made := client.NewBlockBlobClient("buffer")
	// Only what is larger than a single upload may hold goes in blocks, so the stream is what makes some.
	must(made.UploadBuffer(ctx, data, &blockblob.UploadBufferOptions{BlockSize: piece, Concurrency: 4}))(t)
	same(t, read(t, made, 0, 0), data)
	streamed := client.NewBlockBlobClient("stream")
	must(streamed.UploadStream(ctx, bytes.NewReader(data), &blockblob.UploadStreamOptions{BlockSize: 1 << 20, Concurrency: 3}))(t)
	list := must(streamed.GetBlockList(ctx, blockblob.BlockListTypeAll, nil))(t)
	equal(t, []int{len(list.CommittedBlocks), len(list.UncommittedBlocks)}, []int{2, 0})
	back := make([]byte, len(data))
	count := must(streamed.DownloadBuffer(ctx, back, &blob.DownloadBufferOptions{BlockSize: 100_000, Concurrency: 4}))(t)
	equal(t, count, int64(len(data)))
	same(t, back, data)
}

func TestBlocks(t *testing.T) {
	client, _ := newContainer(t)
	made := client.NewBlockBlobClient("a")
	for number := range 3 {
		must(made.StageBlock(ctx, id(number), body([]byte(fmt.Sprint(number))), nil))(t)
	}
	_, err := made.GetProperties(ctx, nil)
	refused(t, err, 404, "BlobNotFound")
	equal(t, names(t, client, &container.ListBlobsFlatOptions{Include: container.ListBlobsInclude{UncommittedBlobs: true}}), []string{"a"})
	must(made.CommitBlockList(ctx, []string{id(2), id(0), id(2)}, nil))(t)
	equal(t, text(t, made), "202")
	_, err = made.CommitBlockList(ctx, []string{id(9)}, nil)
	refused(t, err, 400, "InvalidBlockList")
	_, err = made.StageBlock(ctx, id(1), body([]byte("x")), &blockblob.StageBlockOptions{TransactionalValidation: blob.TransferValidationTypeMD5(make([]byte, 16))})
	refused(t, err, 400, "Md5Mismatch")
	_, err = made.StageBlock(ctx, id(1), body([]byte("x")), &blockblob.StageBlockOptions{TransactionalValidation: blob.TransferValidationTypeCRC64(1)})
	refused(t, err, 400, "Crc64Mismatch")
	must(made.StageBlock(ctx, id(1), body([]byte("checked")), &blockblob.StageBlockOptions{TransactionalValidation: blob.TransferValidationTypeComputeCRC64()}))(t)
	must(made.CommitBlockList(ctx, []string{id(1), id(0)}, nil))(t)
	equal(t, text(t, made), "checked0")
}

func TestRanges(t *testing.T) {
	client, _ := newContainer(t)
	made := put(t, client, "a", "0123456789")
	for _, each := range []struct {
		offset, count int64
		want          string
	}{{0, 3, "012"}, {7, 0, "789"}, {8, 100, "89"}} {
		equal(t, string(read(t, made, each.offset, each.count)), each.want)
	}
	_, err := made.DownloadStream(ctx, &blob.DownloadStreamOptions{Range: blob.HTTPRange{Offset: 10, Count: 1}})
	refused(t, err, 416, "InvalidRange")
}

func TestConditions(t *testing.T) {
	client, _ := newContainer(t)
	made := put(t, client, "a", "one")
	old := must(made.GetProperties(ctx, nil))(t).ETag
	_, err := made.Upload(ctx, body([]byte("x")), &blockblob.UploadOptions{AccessConditions: ifNoneMatch(pointer(azcore.ETagAny))})
	refused(t, err, 409, "BlobAlreadyExists")
	changed := must(made.Upload(ctx, body([]byte("two")), &blockblob.UploadOptions{AccessConditions: ifMatch(old)}))(t).ETag
	_, err = made.Upload(ctx, body([]byte("x")), &blockblob.UploadOptions{AccessConditions: ifMatch(old)})
	refused(t, err, 412, "ConditionNotMet")
	// The client takes 304 for an answer like others.
	unchanged := must(made.DownloadStream(ctx, &blob.DownloadStreamOptions{AccessConditions: ifNoneMatch(changed)}))(t)
	equal(t, *unchanged.ErrorCode, "ConditionNotMet")
	_, err = made.Delete(ctx, &blob.DeleteOptions{AccessConditions: ifMatch(old)})
	refused(t, err, 412, "ConditionNotMet")
	equal(t, text(t, made), "two")
}

func TestAppend(t *testing.T) {
	client, name := newContainer(t)
	put(t, client, "source", "0123456789")
	log := client.NewAppendBlobClient("log")
	must(log.Create(ctx, nil))(t)
	must(log.AppendBlock(ctx, body([]byte("one")), nil))(t)
	at := func(position int64) *appendblob.AppendBlockOptions {
		return &appendblob.AppendBlockOptions{AppendPositionAccessConditions: &appendblob.AppendPositionAccessConditions{AppendPosition: &position}}
	}
	equal(t, *must(log.AppendBlock(ctx, body([]byte("two")), at(3)))(t).BlobAppendOffset, "3")
	_, err := log.AppendBlock(ctx, body([]byte("x")), at(3))
	refused(t, err, 412, "AppendPositionConditionNotMet")
	must(log.AppendBlockFromURL(ctx, source(t, name, "source"), &appendblob.AppendBlockFromURLOptions{Range: blob.HTTPRange{Offset: 2, Count: 3}}))(t)
	equal(t, text(t, log), "onetwo234")

	var group sync.WaitGroup
	for range 10 {
		group.Add(1)
		go func() {
			defer group.Done()
			if _, err := log.AppendBlock(ctx, body([]byte("x")), nil); err != nil {
				t.Error(err)
			}
		}()
	}
	group.Wait()
	equal(t, text(t, log), "onetwo234xxxxxxxxxx")
	must(log.Seal(ctx, nil))(t)
	_, err = log.AppendBlock(ctx, body([]byte("x")), nil)
	refused(t, err, 409, "BlobIsSealed")
}

func TestPages(t *testing.T) {
	client, _ := newContainer(t)
	disk := client.NewPageBlobClient("disk")
	must(disk.Create(ctx, 4096, nil))(t)
	data := content(1024, 3)
	must(disk.UploadPages(ctx, body(data), blob.HTTPRange{Offset: 512, Count: 1024}, nil))(t)
	taken := must(disk.CreateSnapshot(ctx, nil))(t).Snapshot
	must(disk.ClearPages(ctx, blob.HTTPRange{Offset: 512, Count: 512}, nil))(t)
	must(disk.UploadPages(ctx, body(data[:512]), blob.HTTPRange{Offset: 3072, Count: 512}, nil))(t)
	var pages, cleared [][]int64
	for pager := disk.NewGetPageRangesPager(nil); pager.More(); {
		for _, each := range must(pager.NextPage(ctx))(t).PageRange {
			pages = append(pages, []int64{*each.Start, *each.End})
		}
	}
	equal(t, pages, [][]int64{{1024, 1535}, {3072, 3583}})
	pages = nil
	for pager := disk.NewGetPageRangesDiffPager(&pageblob.GetPageRangesDiffOptions{PrevSnapshot: taken}); pager.More(); {
		list := must(pager.NextPage(ctx))(t)
		for _, each := range list.PageRange {
			pages = append(pages, []int64{*each.Start, *each.End})
		}
		for _, each := range list.ClearRange {
			cleared = append(cleared, []int64{*each.Start, *each.End})
		}
	}
	equal(t, [][][]int64{pages, cleared}, [][][]int64{{{3072, 3583}}, {{512, 1023}}})
	want := make([]byte, 4096)
	copy(want[1024:], data[512:])
	copy(want[3072:], data[:512])
	same(t, read(t, disk, 0, 0), want)
	must(disk.Resize(ctx, 2048, nil))(t)
	same(t, read(t, disk, 0, 0), want[:2048])
	update := pageblob.SequenceNumberActionTypeUpdate
	equal(t, *must(disk.UpdateSequenceNumber(ctx, &pageblob.UpdateSequenceNumberOptions{ActionType: &update, SequenceNumber: pointer(int64(7))}))(t).BlobSequenceNumber, int64(7))
	must(disk.Delete(ctx, &blob.DeleteOptions{DeleteSnapshots: pointer(blob.DeleteSnapshotsOptionTypeInclude)}))(t)
}

func TestSnapshots(t *testing.T) {
	client, _ := newContainer(t)
	made := put(t, client, "a", "one")
	taken := *must(made.CreateSnapshot(ctx, nil))(t).Snapshot
	must(made.Upload(ctx, body([]byte("two")), nil))(t)
	equal(t, text(t, must(made.WithSnapshot(taken))(t)), "one")
	equal(t, text(t, made), "two")
	equal(t, names(t, client, &container.ListBlobsFlatOptions{Include: container.ListBlobsInclude{Snapshots: true}}), []string{"a", "a"})
	_, err := made.Delete(ctx, nil)
	refused(t, err, 409, "SnapshotsPresent")
	must(made.Delete(ctx, &blob.DeleteOptions{DeleteSnapshots: pointer(blob.DeleteSnapshotsOptionTypeInclude)}))(t)
	equal(t, names(t, client, nil), []string{})
}

func TestLease(t *testing.T) {
	client, _ := newContainer(t)
	made := put(t, client, "a", "one")
	leased := must(lease.NewBlobClient(made, nil))(t)
	must(leased.AcquireLease(ctx, -1, nil))(t)
	_, err := made.Upload(ctx, body([]byte("x")), nil)
	refused(t, err, 412, "LeaseIdMissing")
	with := &blob.AccessConditions{LeaseAccessConditions: &blob.LeaseAccessConditions{LeaseID: leased.LeaseID()}}
	must(made.Upload(ctx, body([]byte("two")), &blockblob.UploadOptions{AccessConditions: with}))(t)
	must(leased.RenewLease(ctx, nil))(t)
	must(leased.ChangeLease(ctx, "00000000-0000-4000-8000-000000000001", nil))(t)
	equal(t, *must(leased.BreakLease(ctx, &lease.BlobBreakOptions{BreakPeriod: pointer(int32(0))}))(t).LeaseTime, int32(0))
	equal(t, *must(made.GetProperties(ctx, nil))(t).LeaseState, lease.StateTypeBroken)
}

func TestCopies(t *testing.T) {
	client, name := newContainer(t)
	data := content(500_000, 4)
	original := client.NewBlockBlobClient("ü %")
	must(original.Upload(ctx, body(data), nil))(t)
	started := client.NewBlockBlobClient("started")
	answer := must(started.StartCopyFromURL(ctx, original.URL(), nil))(t)
	equal(t, *answer.CopyStatus, blob.CopyStatusTypeSuccess)
	_, err := started.AbortCopyFromURL(ctx, *answer.CopyID, nil)
	refused(t, err, 409, "NoPendingCopyOperation")
	atOnce := client.NewBlockBlobClient("at once")
	must(atOnce.CopyFromURL(ctx, source(t, name, "ü %"), nil))(t)
	whole := client.NewBlockBlobClient("whole")
	must(whole.UploadBlobFromURL(ctx, source(t, name, "ü %"), nil))(t)
	for _, each := range []*blockblob.Client{started, atOnce, whole} {
		same(t, read(t, each, 0, 0), data)
	}
	staged := client.NewBlockBlobClient("staged")
	must(staged.StageBlockFromURL(ctx, id(0), source(t, name, "ü %"), &blockblob.StageBlockFromURLOptions{Range: blob.HTTPRange{Offset: 1000, Count: 2000}}))(t)
	must(staged.CommitBlockList(ctx, []string{id(0)}, nil))(t)
	same(t, read(t, staged, 0, 0), data[1000:3000])
	_, err = started.StartCopyFromURL(ctx, client.NewBlobClient("missing").URL(), nil)
	refused(t, err, 404, "BlobNotFound")
	_, err = started.CopyFromURL(ctx, source(t, name, "missing"), nil)
	refused(t, err, 404, "CannotVerifyCopySource")
}

func TestLists(t *testing.T) {
	client, _ := newContainer(t)
	tree := []string{"a", "dir-x", "dir/1", "dir/sub/2", "dir/z", "dir0", "e/f"}
	for _, name := range tree {
		put(t, client, name, name)
	}
	for _, size := range []int32{1, 3, 100} {
		equal(t, names(t, client, &container.ListBlobsFlatOptions{MaxResults: &size}), tree)
		var folders, files []string
		for pager := client.NewListBlobsHierarchyPager("/", &container.ListBlobsHierarchyOptions{MaxResults: &size}); pager.More(); {
			page := must(pager.NextPage(ctx))(t)
			for _, each := range page.Segment.BlobPrefixes {
				folders = append(folders, *each.Name)
			}
			for _, each := range page.Segment.BlobItems {
				files = append(files, *each.Name)
			}
		}
		equal(t, [][]string{folders, files}, [][]string{{"dir/", "e/"}, {"a", "dir-x", "dir0"}})
	}
	equal(t, names(t, client, &container.ListBlobsFlatOptions{Prefix: pointer("dir/")}), tree[2:5])
}

func TestNames(t *testing.T) {
	for _, name := range []string{"with space", "ünï/文件.txt", "100%", "a%20b", "a+b&c=d", "q?x#y", "it's \"quoted\"", "folder/", "😀", "<tag>&amp;", "~!$()*,:@[]"} {
		t.Run(name, func(t *testing.T) {
			client, _ := newContainer(t)
			made := put(t, client, name, name)
			equal(t, text(t, made), name)
			equal(t, names(t, client, nil), []string{name})
			must(made.Delete(ctx, nil))(t)
			equal(t, names(t, client, nil), []string{})
		})
	}
}

func TestTagsAndTiers(t *testing.T) {
	client, name := newContainer(t)
	mark := uniqueName()
	made := put(t, client, "a", "x")
	must(made.SetTags(ctx, map[string]string{"mark": mark, "env": "prod"}, nil))(t)
	equal(t, len(must(made.GetTags(ctx, nil))(t).BlobTagSet), 2)
	found := must(blobs(t).FilterBlobs(ctx, fmt.Sprintf("mark='%s' AND env='prod'", mark), nil))(t).Blobs
	equal(t, []any{len(found), *found[0].Name, *found[0].ContainerName}, []any{1, "a", name})
	must(made.SetTier(ctx, blob.AccessTierCool, nil))(t)
	equal(t, *must(made.GetProperties(ctx, nil))(t).AccessTier, "Cool")
	must(made.SetTier(ctx, blob.AccessTierArchive, nil))(t)
	_, err := made.DownloadStream(ctx, nil)
	refused(t, err, 409, "BlobArchived")
}

func TestBatch(t *testing.T) {
	client, name := newContainer(t)
	for number := range 6 {
		put(t, client, fmt.Sprintf("dir/blob %d", number), "x")
	}
	tiers := must(client.NewBatchBuilder())(t)
	ok(t, tiers.SetTier("dir/blob 0", blob.AccessTierCool, nil))
	equal(t, len(must(client.SubmitBatch(ctx, tiers, nil))(t).Responses), 1)
	equal(t, *must(client.NewBlobClient("dir/blob 0").GetProperties(ctx, nil))(t).AccessTier, "Cool")
	inContainer := must(client.NewBatchBuilder())(t)
	for number := range 3 {
		ok(t, inContainer.Delete(fmt.Sprintf("dir/blob %d", number), nil))
	}
	ok(t, inContainer.Delete("missing", nil))
	answers := must(client.SubmitBatch(ctx, inContainer, nil))(t).Responses
	equal(t, len(answers), 4)
	for _, each := range answers[:3] {
		ok(t, each.Error)
	}
	refused(t, answers[3].Error, 404, "BlobNotFound")
	ofAccount := must(blobs(t).NewBatchBuilder())(t)
	for number := 3; number < 6; number++ {
		ok(t, ofAccount.Delete(name, fmt.Sprintf("dir/blob %d", number), nil))
	}
	for _, each := range must(blobs(t).SubmitBatch(ctx, ofAccount, nil))(t).Responses {
		ok(t, each.Error)
	}
	equal(t, names(t, client, nil), []string{})
}
