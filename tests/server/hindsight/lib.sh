# What start and stop share. Sourced, not run.

say() { echo "hindsight-server: $*" >&2; }
die() { say "$*"; exit 1; }

phase() { phase_name=$1 phase_from=$(date +%s%N); say "$1 ..."; }
phase_end() {
  local tenths=$((($(date +%s%N) - phase_from) / 100000000))
  say "$phase_name: $((tenths / 10)).$((tenths % 10)) s"
}

# A pid file holds the pid and the process's start time, so a recycled pid is never signalled.
start_time() { awk '{ sub(/^.*\) /, ""); print $20 }' "/proc/$1/stat" 2>/dev/null; }
keep_pid() { echo "$2 $(start_time "$2")" >"$1"; }
alive_pid() { [ -n "${1:-}" ] && [ -d "/proc/$1" ] && ! grep -q '^State:[[:space:]]*Z' "/proc/$1/status" 2>/dev/null; }
alive() {
  local pid began
  [ -f "$1" ] && read -r pid began <"$1" && alive_pid "$pid" && [ "$(start_time "$pid")" = "$began" ]
}

# end_pid FILE SIGNAL SECONDS: ask, wait, then kill; only the process that the file names.
end_pid() {
  local pid _
  if alive "$1"; then
    read -r pid _ <"$1"
    kill -"$2" "$pid" 2>/dev/null || true
    for _ in $(seq "$(($3 * 10))"); do
      alive "$1" || break
      sleep 0.1
    done
    alive "$1" && kill -KILL "$pid" 2>/dev/null || true
  fi
  rm -f "$1"
}

# All that runs under one name; PostgreSQL breaks off its sessions and writes everything down.
end_parts() {
  end_pid "$run/api.pid" TERM 15
  end_pid "$run/stub.pid" TERM 5
  end_pid "$run/postgres.pid" INT 30
}

# shut_down_in_order PG_HOME DATA: whether a database that is down wrote everything down first.
shut_down_in_order() {
  local controldata
  for controldata in "$1"/.pg0/installation/*/bin/pg_controldata; do
    LC_ALL=C "$controldata" "$2" 2>/dev/null | grep -q '^Database cluster state: *shut down$' && return 0
  done
  return 1
}

port_open() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

http_ok() {
  "$venv/bin/python" - "$1" <<'PY' 2>/dev/null
import sys, urllib.request
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
sys.exit(opener.open(sys.argv[1], timeout=5).status != 200)
PY
}

# wait_http URL SECONDS PIDFILE: until the URL answers 200, while the process lives.
wait_http() {
  local until=$(($(date +%s) + $2)) host_port=${1#http://}
  host_port=${host_port%%/*}
  while [ "$(date +%s)" -lt "$until" ]; do
    if port_open "${host_port##*:}" && http_ok "$1"; then return 0; fi
    alive "$3" || return 1
    sleep 0.1
  done
  return 1
}

# PostgreSQL refuses to run as root. As root, run it in a user namespace that shows root as an
# ordinary user (its files stay root's, no account is needed); where namespaces are not
# allowed, as the user 'nobody', in a folder that this user can reach.
pg_mode() {
  if [ "$(id -u)" != 0 ]; then
    echo self
  elif unshare --user --map-user=1000 --map-group=1000 true 2>/dev/null; then
    echo namespace
  else
    echo nobody
  fi
}
as_nobody() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
unprivileged() {
  case $(pg_mode) in
    self) "$@" ;;
    namespace) unshare --user --map-user=1000 --map-group=1000 "$@" ;;
    nobody)
      chown -R 65534:65534 "$pg_home"
      (cd "$pg_home" && as_nobody "$@")
      ;;
  esac
}

# Where PostgreSQL's files live: beside the rest, unless 'nobody' must reach them and can't.
pg_home_of() {
  if [ -f "$1/.pg_home" ]; then
    cat "$1/.pg_home"
  elif [ "$(pg_mode)" = nobody ] && ! as_nobody test -x "$1"; then
    echo "/var/tmp/hindsight-server-$(echo "$1" | cksum | cut -d' ' -f1)" | tee "$1/.pg_home"
  else
    echo "$1/pg"
  fi
}
