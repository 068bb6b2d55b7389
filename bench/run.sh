#!/usr/bin/env bash
# Runs the same workloads against one or more servers, in turns, and prints a table with ratios.
#
#   bench/run.sh [options] NAME=SPEC [NAME=SPEC ...]
#
# NAME is free. SPEC says where the server listens:
#   10000                                a base port on 127.0.0.1: blob N, queue N+1, table N+2,
#                                        account devstoreaccount1 (as Azurite has it)
#   blob=URL,queue=URL,table=URL         endpoints with the account in the path; services that are
#                                        left out are skipped
#   client:10000                         the same as 10000, but asked by clientload/, which uses
#                                        tepui-client (table-get, table-insert, table-query-page)
#   bare                                 the bare HTTP server of bare/, started here: the ceiling
#                                        (not for queries, gets of messages, and lists)
# Ratios are against the first server.
#
#   -w LIST    workloads, with commas or spaces, or a group: all, quick, table, queue, blob,
#              blob-small, blob-large                                        (default: all)
#   -s SECS    measured seconds per run (default 6)
#   -W SECS    warm-up before each run (default 2)
#   -r N       rounds; the order of the servers is reversed each round: AB BA AB (default 3)
#   -c N       connections (default: 16, and 4 for the large blobs)
#   -a MODE    sharedkey or sas (default sharedkey)
#   -x ARGS    more arguments for azload, e.g. -x "--metadata minimal --preload 50000"
#   -o DIR     where results.jsonl and table.md go (default: a new directory under bench/results/)
#   -t CORES   a run during which the hypervisor stole more than this many cores (default 0.1), or
#              other processes used more than 0.3, is repeated, up to twice; all runs are kept in
#              results.jsonl, and the table uses the quiet ones, or marks the cell with ~
#   -n         only print what would run
#
# Errors are never left out: a workload with errors shows their number in the table, and a server
# that could not run it shows "failed". Needs cargo and python3.
set -u
here=$(cd "$(dirname "$0")" && pwd)
list=all secs=6 warm=2 rounds=3 conns= auth=sharedkey extra= out= dry= steal=0.1
while getopts "w:s:W:r:c:a:x:o:t:nh" o; do
  case $o in
    w) list=$OPTARG ;; s) secs=$OPTARG ;; W) warm=$OPTARG ;; r) rounds=$OPTARG ;;
    c) conns=$OPTARG ;; a) auth=$OPTARG ;; x) extra=$OPTARG ;; o) out=$OPTARG ;;
    t) steal=$OPTARG ;; n) dry=1 ;;
    *) sed -n '2,/^set -u/p' "$0" | sed '$d; s/^# \{0,1\}//'; exit 2 ;;
  esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || { echo "run.sh: no servers; -h for help" >&2; exit 2; }

table="table-insert table-insert-hot table-get table-upsert-merge table-query-range table-query-scan table-query-page table-batch table-mixed"
queue="queue-put queue-getdelete queue-roundtrip"
bsmall="blob-put-small blob-get-small blob-list"
blarge="blob-put-large blob-put-blocks blob-get-large"
work=
for w in ${list//,/ }; do
  case $w in
    all) work="$work $table $queue $bsmall $blarge" ;;
    quick) work="$work table-insert table-get table-query-range table-batch queue-roundtrip blob-put-small blob-get-small" ;;
    table) work="$work $table" ;; queue) work="$work $queue" ;;
    blob) work="$work $bsmall $blarge" ;; blob-small) work="$work $bsmall" ;; blob-large) work="$work $blarge" ;;
    *) work="$work $w" ;;
  esac
done

names=() eps=() programs=()
for s in "$@"; do
  n=${s%%=*} spec=${s#*=} program=azload
  case $spec in client:*) program=clientload spec=${spec#client:} ;; esac
  case $spec in
    bare)
      e="--no-verify --blob-endpoint http://127.0.0.1:29778/devstoreaccount1 --queue-endpoint http://127.0.0.1:29778/devstoreaccount1 --table-endpoint http://127.0.0.1:29778/devstoreaccount1"; bare=1 ;;
    *[!0-9]*)
      e=
      for p in ${spec//,/ }; do e="$e --${p%%=*}-endpoint ${p#*=}"; done ;;
    *)
      e="--blob-endpoint http://127.0.0.1:$spec/devstoreaccount1 --queue-endpoint http://127.0.0.1:$((spec + 1))/devstoreaccount1 --table-endpoint http://127.0.0.1:$((spec + 2))/devstoreaccount1" ;;
  esac
  names+=("$n") eps+=("$e") programs+=("$program")
done

. "$here/build.sh"
if [ -n "${bare:-}" ]; then
  "$bare_server" --port 29778 --hmac & bare=$!
  trap 'kill "$bare" 2>/dev/null' EXIT
  sleep 0.5
fi
out=${out:-$here/results/$(date -u +%Y%m%d-%H%M%S)}
mkdir -p "$out"
res=$out/results.jsonl

for w in $work; do
  svc=${w%%-*}
  for ((r = 1; r <= rounds; r++)); do
    order=()
    for ((i = 0; i < ${#names[@]}; i++)); do
      if ((r % 2)); then order+=("$i"); else order=("$i" "${order[@]}"); fi
    done
    for i in "${order[@]}"; do
      case ${eps[i]} in *--$svc-endpoint*) ;; *) continue ;; esac
      cmd="${!programs[i]} --label ${names[i]} --workload $w ${eps[i]} --seconds $secs --warmup $warm --auth $auth ${conns:+--connections $conns} $extra"
      if [ -n "$dry" ]; then echo "$cmd"; continue; fi
      for try in 1 2 3; do
        line=$($cmd 2>>"$out/errors.log")
        [ -n "$line" ] || line="{\"label\":\"${names[i]}\",\"workload\":\"$w\",\"ops_s\":0,\"failed\":\"azload ended without a result\"}"
        echo "$line" >>"$res"
        python3 "$here/report.py" --steal "$steal" --line <<<"$line" && break
      done
    done
  done
done
[ -n "$dry" ] && exit 0
echo
python3 "$here/report.py" --steal "$steal" "$res" | tee "$out/table.md"
echo "results: $res"
