// One store of a TiKV cluster for tests: unistore, which keeps regions with Raft and speaks TiKV's protocol.
//
// It listens on loopback only. Three things are different from unistore as it is, because the client relies on
// how TiKV does them; each has its reason where it is done. It loses locks if it is told to.
package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/ngaut/unistore/config"
	"github.com/ngaut/unistore/pd"
	"github.com/ngaut/unistore/server"
	"github.com/ngaut/unistore/tikv"
	"github.com/pingcap/kvproto/pkg/deadlock"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/tikvpb"
	"github.com/pingcap/log"
	"github.com/zhangjinpeng1987/raft"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
)

const (
	// TiKV's default. unistore would store a longer key and then panic, on every replica and at each start.
	maxKeyBytes     = 8 << 10
	maxMessageBytes = 64 << 20
)

type options struct {
	pd        string
	address   string
	directory string
	splitKeys int64
	logLevel  string
	loses     string
}

func main() {
	var o options
	flag.StringVar(&o.pd, "pd", "", "addresses of PD, with commas between them")
	flag.StringVar(&o.address, "address", "", "where to listen, on loopback")
	flag.StringVar(&o.directory, "data-dir", "", "where to keep the data")
	flag.Int64Var(&o.splitKeys, "split-keys", 4000, "how many keys a region has after it was split")
	flag.StringVar(&o.logLevel, "log-level", "info", "the least important messages to log")
	flag.StringVar(&o.loses, "lose-locks-of", "", "what keys begin with, in hexadecimal, whose pessimistic locks are lost once: see loseLocks")
	flag.Parse()
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "store:", err)
		os.Exit(1)
	}
}

func run(o options) error {
	host, _, err := net.SplitHostPort(o.address)
	if err != nil {
		return err
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return errors.New("not an address of loopback: " + o.address)
	}
	if err := os.MkdirAll(o.directory, 0o755); err != nil {
		return err
	}
	if err := logTo(o.logLevel); err != nil {
		return err
	}
	loses, err := hex.DecodeString(o.loses)
	if err != nil {
		return err
	}
	client, err := pd.NewClient(strings.Split(o.pd, ","), "")
	if err != nil {
		return err
	}
	node, err := server.New(configOf(o), client)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", o.address)
	if err != nil {
		return err
	}
	// Clients ping more often than gRPC lets them by default.
	pings := keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}
	rpc := grpc.NewServer(grpc.KeepaliveEnforcementPolicy(pings), grpc.MaxRecvMsgSize(maxMessageBytes),
		grpc.InitialWindowSize(1<<24), grpc.InitialConnWindowSize(1<<26))
	tikvpb.RegisterTikvServer(rpc, &service{Server: node, loses: loses})
	deadlock.RegisterDeadlockServer(rpc, node)
	log.Info("ready", zap.String("address", o.address))
	return rpc.Serve(listener)
}

// Timings are short, so that a test need not wait long for a new leader.
func configOf(o options) *config.Config {
	c := config.DefaultConf
	c.Server.PDAddr = o.pd
	c.Server.StoreAddr = o.address
	c.Server.LogLevel = o.logLevel
	c.RaftStore.PdHeartbeatTickInterval = "1s"
	c.RaftStore.RaftBaseTickInterval = "100ms"
	c.RaftStore.RaftHeartbeatTicks = 2
	c.RaftStore.RaftElectionTimeoutTicks = 10
	// Less than the time after which another peer may be elected.
	c.RaftStore.RaftStoreMaxLeaderLease = "900ms"
	c.Engine.DBPath = o.directory
	c.Engine.MaxMemTableSize = 16 << 20
	c.Engine.VlogFileSize = 64 << 20
	c.Engine.L1Size = 64 << 20
	// Processes are killed in tests, not machines.
	c.Engine.SyncWrite = false
	c.Coprocessor.RegionSplitKeys = o.splitKeys
	c.Coprocessor.RegionMaxKeys = o.splitKeys * 3 / 2
	return &c
}

func logTo(level string) error {
	logger, properties, err := log.InitLogger(&log.Config{Level: level})
	if err != nil {
		return err
	}
	log.ReplaceGlobals(logger, properties)
	raft.SetLogger(raftLogger{logger.Sugar()})
	return nil
}

// Raft calls warnings by another name than zap.
type raftLogger struct{ *zap.SugaredLogger }

func (l raftLogger) Warning(v ...interface{}) { l.Warn(v...) }

func (l raftLogger) Warningf(format string, v ...interface{}) { l.Warnf(format, v...) }

type service struct {
	*tikv.Server

	mutex  sync.Mutex
	loses  []byte
	locked []*kvrpcpb.PessimisticLockRequest
}

// KvGet says whether a key was found: without that, clients take one that is absent for an empty value.
func (s *service) KvGet(ctx context.Context, request *kvrpcpb.GetRequest) (*kvrpcpb.GetResponse, error) {
	response, err := s.Server.KvGet(ctx, request)
	if err != nil || response == nil || response.Error != nil || response.RegionError != nil {
		return response, err
	}
	response.NotFound = len(response.Value) == 0
	return response, nil
}

// KvPrewrite refuses keys that are too long. It drops the list of secondary keys, which the client always sends and
// TiKV only uses for async commit; unistore would store all of them with each lock.
func (s *service) KvPrewrite(ctx context.Context, request *kvrpcpb.PrewriteRequest) (*kvrpcpb.PrewriteResponse, error) {
	for _, mutation := range request.Mutations {
		if len(mutation.Key) > maxKeyBytes {
			refused := &kvrpcpb.KeyError{Abort: "key is too large"}
			return &kvrpcpb.PrewriteResponse{Errors: []*kvrpcpb.KeyError{refused}}, nil
		}
	}
	if !request.UseAsyncCommit && !request.TryOnePc {
		request.Secondaries = nil
	}
	return s.Server.KvPrewrite(ctx, request)
}

// KvPessimisticLock remembers what is locked of the keys whose locks are to be lost.
func (s *service) KvPessimisticLock(ctx context.Context, request *kvrpcpb.PessimisticLockRequest) (*kvrpcpb.PessimisticLockResponse, error) {
	s.mutex.Lock()
	if len(s.loses) > 0 && bytes.HasPrefix(request.PrimaryLock, s.loses) {
		s.locked = append(s.locked, request)
	}
	s.mutex.Unlock()
	return s.Server.KvPessimisticLock(ctx, request)
}

// KvBatchGet holds up its answer when the locks were lost beside it, so that others can commit before the owner goes on.
func (s *service) KvBatchGet(ctx context.Context, request *kvrpcpb.BatchGetRequest) (*kvrpcpb.BatchGetResponse, error) {
	response, err := s.Server.KvBatchGet(ctx, request)
	if s.loseLocks(ctx, request) {
		time.Sleep(time.Second)
	}
	return response, err
}

// loseLocks loses pessimistic locks without a trace, as TiKV may when the leader of a region changes: once, when such a key is first
// read beside them. Returns whether it was now.
func (s *service) loseLocks(ctx context.Context, read *kvrpcpb.BatchGetRequest) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if len(s.locked) == 0 || len(read.Keys) == 0 || !bytes.HasPrefix(read.Keys[0], s.loses) {
		return false
	}
	for _, lock := range s.locked {
		rollback := &kvrpcpb.PessimisticRollbackRequest{
			Context: lock.Context, StartVersion: lock.StartVersion, ForUpdateTs: lock.ForUpdateTs,
		}
		for _, mutation := range lock.Mutations {
			rollback.Keys = append(rollback.Keys, mutation.Key)
		}
		if _, err := s.Server.KVPessimisticRollback(ctx, rollback); err != nil {
			log.Warn("locks cannot be lost", zap.Error(err))
		}
	}
	s.loses, s.locked = nil, nil
	return true
}
