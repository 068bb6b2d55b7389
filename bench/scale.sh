#!/usr/bin/env bash
# How a table service does as a table grows: loads it to each size in turn, and at each size
# measures point reads, range queries, inserts, memory, and a stop and a start with the data.
#
#   bench/scale.sh -e TABLE_URL -c "COMMAND THAT STARTS THE SERVER" [options]
#
#   -n SIZES   entities, rising, multiples of 1000 (default "10000 100000 250000 500000 1000000")
#   -s SECS    measured seconds per run (default 5)
#   -d DIR     the server's data directory, to report its size
#   -g SECS    how long to wait for the server to start or to stop (default 120)
#   -o DIR     output (default: a new directory under bench/results/)
#   -L LABEL   copied to the results
#   -f N       the data directory has the first N entities from an earlier run: go on from there
#   -R         no restarts between the sizes (for a server that keeps nothing)
#
# The server is started by this script and ended by its pid; it must stay in the foreground.
# Output: results.jsonl (azload's lines, and lines with "event" for starts, stops and crashes).
set -u
here=$(cd "$(dirname "$0")" && pwd)
sizes="10000 100000 250000 500000 1000000" secs=5 data= grace=120 out= label=server restart=1 ep= cmd= from=0
while getopts "e:c:n:s:d:g:o:L:f:Rh" o; do
  case $o in
    e) ep=$OPTARG ;; c) cmd=$OPTARG ;; n) sizes=$OPTARG ;; s) secs=$OPTARG ;; d) data=$OPTARG ;;
    g) grace=$OPTARG ;; o) out=$OPTARG ;; L) label=$OPTARG ;; f) from=$OPTARG ;; R) restart= ;;
    *) sed -n '2,/^set -u/p' "$0" | sed '$d; s/^# \{0,1\}//'; exit 2 ;;
  esac
done
[ -n "$ep" ] && [ -n "$cmd" ] || { echo "scale.sh: -e and -c are needed; -h for help" >&2; exit 2; }
. "$here/build.sh"
out=${out:-$here/results/scale-$(date -u +%Y%m%d-%H%M%S)}
mkdir -p "$out"
res=$out/results.jsonl
pid=
now() { date +%s.%N; }
emit() { echo "$1" | tee -a "$res"; }
alive() { [ -n "$pid" ] && kill -0 "$pid" 2>/dev/null; }
rss() { awk '/^VmRSS/{printf "%.0f", $2/1024}' "/proc/$pid/status" 2>/dev/null || echo 0; }
disk() { [ -n "$data" ] && du -sm "$data" 2>/dev/null | cut -f1 || echo 0; }

start() { # start N: until entity 0 (of N) can be read; N=0: until the port answers
  local t0 t; t0=$(now)
  bash -c "exec $cmd" >>"$out/server.log" 2>&1 &
  pid=$!
  while :; do
    if [ "$1" = 0 ]; then
      "$azload" --workload table-preload --table-endpoint "$ep" --name azlprobe --preload 100 --preload-from 100 >/dev/null 2>&1 && break
    else
      "$azload" --workload table-get --table-endpoint "$ep" --name azlscale --preload 1000 --no-preload --connections 1 --warmup 0 --seconds 0.02 >/dev/null 2>&1 && break
    fi
    t=$(awk "BEGIN{print $(now)-$t0}")
    if ! alive || [ "${t%.*}" -ge "$grace" ]; then
      emit "{\"label\":\"$label\",\"event\":\"did-not-start\",\"entities\":$1,\"seconds\":$t,\"alive\":$(alive && echo true || echo false)}"
      return 1
    fi
    sleep 0.1
  done
  emit "{\"label\":\"$label\",\"event\":\"start\",\"entities\":$1,\"seconds\":$(awk "BEGIN{printf \"%.2f\", $(now)-$t0}"),\"rss_mb\":$(rss),\"disk_mb\":$(disk)}"
}
stop() {
  local t0; t0=$(now)
  kill -TERM "$pid" 2>/dev/null
  while alive; do
    if [ "$(awk "BEGIN{print int($(now)-$t0)}")" -ge "$grace" ]; then
      kill -KILL "$pid"; wait "$pid" 2>/dev/null
      emit "{\"label\":\"$label\",\"event\":\"killed-after-grace\",\"seconds\":$grace}"
      return
    fi
    sleep 0.1
  done
  wait "$pid" 2>/dev/null
  emit "{\"label\":\"$label\",\"event\":\"stop\",\"rc\":$?,\"seconds\":$(awk "BEGIN{printf \"%.2f\", $(now)-$t0}"),\"disk_mb\":$(disk)}"
}
crashed() {
  wait "$pid" 2>/dev/null
  emit "{\"label\":\"$label\",\"event\":\"crashed\",\"entities\":$1,\"rc\":$?,\"disk_mb\":$(disk)}"
}

trap 'alive && kill -TERM "$pid"; exit 143' TERM INT
start $from || exit 1
prev=$from
for n in $sizes; do
  # In steps, so that a crash of the server is seen where it happens.
  while [ $prev -lt "$n" ]; do
    to=$((prev + 50000)); [ $to -gt "$n" ] && to=$n
    line=$(timeout 300 "$azload" --label "$label" --workload table-preload --table-endpoint "$ep" --name azlscale --preload-from $prev --preload $to --connections 8 2>>"$out/errors.log")
    emit "${line:-{\"label\":\"$label\",\"event\":\"preload-failed\",\"entities\":$prev\}}"
    if ! alive; then crashed $prev; exit 1; fi
    case $line in *failed*|"") stop; exit 1 ;; esac
    prev=$to
  done
  for w in table-get table-query-range table-insert; do
    line=$("$azload" --label "$label-$n" --workload $w --table-endpoint "$ep" --name azlscale --preload "$n" --no-preload --keep --seconds "$secs" --warmup 2 --timeout 120 2>>"$out/errors.log")
    emit "${line:-{\"label\":\"$label-$n\",\"event\":\"$w-failed\"\}}"
    if ! alive; then crashed "$n"; exit 1; fi
  done
  emit "{\"label\":\"$label\",\"event\":\"size\",\"entities\":$n,\"rss_mb\":$(rss),\"disk_mb\":$(disk)}"
  if [ -n "$restart" ]; then
    stop
    start "$n" || exit 1
  fi
done
stop
echo "results: $res"
