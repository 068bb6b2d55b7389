// PD and one store in one process and in memory, on the mock of TiKV's own client for Go. Its locks conflict as TiKV's
// do: a lock that was committed after a transaction began conflicts with it. unistore, which the other tests run on,
// forgets such locks.
//
// Nothing is kept. There is one region, or two with a border that is given, and none splits.
package main

import (
	"context"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/pdpb"
	"github.com/pingcap/kvproto/pkg/tikvpb"
	"github.com/tikv/client-go/v2/testutils"
	"github.com/tikv/client-go/v2/tikvrpc"
	pd "github.com/tikv/pd/client"
	"google.golang.org/grpc"
)

const clusterID = 1

func main() {
	address := flag.String("address", "", "where to listen, on loopback")
	border := flag.String("border", "", "a key in hexadecimal, with which a second region begins")
	flag.Parse()
	if err := run(*address, *border); err != nil {
		fmt.Fprintln(os.Stderr, "mock:", err)
		os.Exit(1)
	}
}

func run(address, border string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return errors.New("not an address of loopback: " + address)
	}
	var borders [][]byte
	if border != "" {
		key, err := hex.DecodeString(border)
		if err != nil {
			return err
		}
		borders = append(borders, key)
	}
	client, cluster, pdClient, err := testutils.NewMockTiKV("", nil)
	if err != nil {
		return err
	}
	store, _, _ := testutils.BootstrapWithMultiRegions(cluster, borders...)
	cluster.UpdateStoreAddr(store, address)
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	server := grpc.NewServer(grpc.MaxRecvMsgSize(64 << 20))
	pdpb.RegisterPDServer(server, &pdService{client: pdClient, address: address})
	tikvpb.RegisterTikvServer(server, &storeService{client: client, address: address})
	return server.Serve(listener)
}

type pdService struct {
	pdpb.UnimplementedPDServer
	client  pd.Client
	address string
}

func header() *pdpb.ResponseHeader { return &pdpb.ResponseHeader{ClusterId: clusterID} }

func (s *pdService) GetMembers(context.Context, *pdpb.GetMembersRequest) (*pdpb.GetMembersResponse, error) {
	url := []string{"http://" + s.address}
	member := &pdpb.Member{Name: "mock", MemberId: 1, ClientUrls: url, PeerUrls: url}
	return &pdpb.GetMembersResponse{Header: header(), Members: []*pdpb.Member{member}, Leader: member}, nil
}

func (s *pdService) Tso(stream pdpb.PD_TsoServer) error {
	for {
		request, err := stream.Recv()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		// As many as were asked for, one after another. All of one answer share the time.
		physical, logical, err := s.client.GetTS(stream.Context())
		for more := request.Count; more > 1 && err == nil; more-- {
			var next int64
			if next, logical, err = s.client.GetTS(stream.Context()); next != physical {
				physical, more = next, request.Count+1
			}
		}
		if err != nil {
			return err
		}
		timestamp := &pdpb.Timestamp{Physical: physical, Logical: logical}
		answer := &pdpb.TsoResponse{Header: header(), Count: request.Count, Timestamp: timestamp}
		if err := stream.Send(answer); err != nil {
			return err
		}
	}
}

func region(found *pd.Region, err error) (*pdpb.GetRegionResponse, error) {
	if err != nil {
		return nil, err
	}
	return &pdpb.GetRegionResponse{Header: header(), Region: found.Meta, Leader: found.Leader}, nil
}

func (s *pdService) GetRegion(ctx context.Context, r *pdpb.GetRegionRequest) (*pdpb.GetRegionResponse, error) {
	return region(s.client.GetRegion(ctx, r.RegionKey))
}

func (s *pdService) GetRegionByID(ctx context.Context, r *pdpb.GetRegionByIDRequest) (*pdpb.GetRegionResponse, error) {
	return region(s.client.GetRegionByID(ctx, r.RegionId))
}

func (s *pdService) GetStore(ctx context.Context, r *pdpb.GetStoreRequest) (*pdpb.GetStoreResponse, error) {
	store, err := s.client.GetStore(ctx, r.StoreId)
	return &pdpb.GetStoreResponse{Header: header(), Store: store}, err
}

func (s *pdService) GetAllStores(ctx context.Context, r *pdpb.GetAllStoresRequest) (*pdpb.GetAllStoresResponse, error) {
	stores, err := s.client.GetAllStores(ctx)
	return &pdpb.GetAllStoresResponse{Header: header(), Stores: stores}, err
}

func (s *pdService) UpdateGCSafePoint(ctx context.Context, r *pdpb.UpdateGCSafePointRequest) (*pdpb.UpdateGCSafePointResponse, error) {
	safepoint, err := s.client.UpdateGCSafePoint(ctx, r.SafePoint)
	return &pdpb.UpdateGCSafePointResponse{Header: header(), NewSafePoint: safepoint}, err
}

type storeService struct {
	tikvpb.UnimplementedTikvServer
	client  *testutils.MockClient
	address string
}

// send lets the mock answer a request.
func send[A any](s *storeService, ctx context.Context, kind tikvrpc.CmdType, request interface{}, region *kvrpcpb.Context) (*A, error) {
	answer, err := s.client.SendRequest(ctx, s.address, tikvrpc.NewRequest(kind, request, *region), time.Minute)
	if err != nil {
		return nil, err
	}
	typed, ok := answer.Resp.(*A)
	if !ok {
		return nil, fmt.Errorf("an answer of another type: %T", answer.Resp)
	}
	return typed, nil
}

func (s *storeService) KvGet(ctx context.Context, r *kvrpcpb.GetRequest) (*kvrpcpb.GetResponse, error) {
	answer, err := send[kvrpcpb.GetResponse](s, ctx, tikvrpc.CmdGet, r, r.Context)
	if err == nil && answer.Error == nil && answer.RegionError == nil {
		answer.NotFound = len(answer.Value) == 0
	}
	return answer, err
}

func (s *storeService) KvScan(ctx context.Context, r *kvrpcpb.ScanRequest) (*kvrpcpb.ScanResponse, error) {
	return send[kvrpcpb.ScanResponse](s, ctx, tikvrpc.CmdScan, r, r.Context)
}

func (s *storeService) KvBatchGet(ctx context.Context, r *kvrpcpb.BatchGetRequest) (*kvrpcpb.BatchGetResponse, error) {
	return send[kvrpcpb.BatchGetResponse](s, ctx, tikvrpc.CmdBatchGet, r, r.Context)
}

func (s *storeService) KvPrewrite(ctx context.Context, r *kvrpcpb.PrewriteRequest) (*kvrpcpb.PrewriteResponse, error) {
	return send[kvrpcpb.PrewriteResponse](s, ctx, tikvrpc.CmdPrewrite, r, r.Context)
}

func (s *storeService) KvCommit(ctx context.Context, r *kvrpcpb.CommitRequest) (*kvrpcpb.CommitResponse, error) {
	return send[kvrpcpb.CommitResponse](s, ctx, tikvrpc.CmdCommit, r, r.Context)
}

func (s *storeService) KvBatchRollback(ctx context.Context, r *kvrpcpb.BatchRollbackRequest) (*kvrpcpb.BatchRollbackResponse, error) {
	return send[kvrpcpb.BatchRollbackResponse](s, ctx, tikvrpc.CmdBatchRollback, r, r.Context)
}

func (s *storeService) KvPessimisticLock(ctx context.Context, r *kvrpcpb.PessimisticLockRequest) (*kvrpcpb.PessimisticLockResponse, error) {
	return send[kvrpcpb.PessimisticLockResponse](s, ctx, tikvrpc.CmdPessimisticLock, r, r.Context)
}

func (s *storeService) KVPessimisticRollback(ctx context.Context, r *kvrpcpb.PessimisticRollbackRequest) (*kvrpcpb.PessimisticRollbackResponse, error) {
	return send[kvrpcpb.PessimisticRollbackResponse](s, ctx, tikvrpc.CmdPessimisticRollback, r, r.Context)
}

func (s *storeService) KvResolveLock(ctx context.Context, r *kvrpcpb.ResolveLockRequest) (*kvrpcpb.ResolveLockResponse, error) {
	return send[kvrpcpb.ResolveLockResponse](s, ctx, tikvrpc.CmdResolveLock, r, r.Context)
}

func (s *storeService) KvScanLock(ctx context.Context, r *kvrpcpb.ScanLockRequest) (*kvrpcpb.ScanLockResponse, error) {
	return send[kvrpcpb.ScanLockResponse](s, ctx, tikvrpc.CmdScanLock, r, r.Context)
}

// KvCheckTxnStatus adds the lock to the answer, as TiKV does and the client expects.
func (s *storeService) KvCheckTxnStatus(ctx context.Context, r *kvrpcpb.CheckTxnStatusRequest) (*kvrpcpb.CheckTxnStatusResponse, error) {
	answer, err := send[kvrpcpb.CheckTxnStatusResponse](s, ctx, tikvrpc.CmdCheckTxnStatus, r, r.Context)
	if err == nil && answer.LockTtl > 0 {
		answer.LockInfo = &kvrpcpb.LockInfo{
			Key: r.PrimaryKey, PrimaryLock: r.PrimaryKey, LockVersion: r.LockTs, LockTtl: answer.LockTtl,
		}
	}
	return answer, err
}
