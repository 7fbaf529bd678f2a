import t from 'tap'
import {
  endOfSequences,
  levelIn,
  levelOfLine,
  type LogLevel,
  reachesLevel,
  timeOfLine,
  visibleText
} from '../../../lib/base/shared/log-line.js'

const table: ReadonlyArray<readonly [line: string, level: LogLevel | null]> = [
  // Words and letters after a time, or at the start
  ['2026-11-21 18:02:37.462 +00 INF jobs: drained (picked=50, failed=0)', 'info'],
  ['2026-11-21T18:02:37Z FTL cannot start', 'error'],
  ['6:02PM WRN slow', null],
  ['[12:00:00 ERR] payment failed', 'error'],
  ['[12:00:01 INF] order stored, error=none', 'info'],
  ['[12:00:03 DBG] cache hit', 'debug'],
  ['[12:00:04 WRN] slow', 'warn'],
  ['[12:00:05 VRB] entering', 'debug'],
  ['[2026-11-21 12:00:00.123 +00:00 FTL] stopped', 'error'],
  ['12:00:01 DBG handler blah error=foobar', 'debug'],
  ['ERRO[0001] logrus error', 'error'],
  ['WARN[0000] logrus warning: error', 'warn'],
  ['INFO[0000] started', 'info'],
  ['DEBU[0000] detail', 'debug'],
  ['FATA[0001] cannot listen', 'error'],
  ['PANI[0001] cannot listen', 'error'],
  ['fail: Shop.Payment[0]', 'error'],
  ['crit: Microsoft.AspNetCore.Hosting.Diagnostics[6]', 'error'],
  ['warn: Shop.Stock[0]', 'warn'],
  ['info: Shop.Order[0]', 'info'],
  ['dbug: Shop.Cache[0]', 'debug'],
  ['trce: Shop.Cache[0]', 'debug'],
  ['[2026-02-20 14:55:36,789: INFO/MainProcess] Task add succeeded', 'info'],
  ['[2026-02-20 14:56:10,123: ERROR/ForkPoolWorker-1] Task raised', 'error'],
  ['[2026-02-20 14:56:10,123: WARNING/MainProcess] slow', 'warn'],
  ['INFO/notes.txt was changed', null],
  ['E/AndroidRuntime( 1234): FATAL EXCEPTION: main', 'error'],
  ['01-31 10:00:00.000  1234  5678 W ActivityManager: slow', 'warn'],
  ['2026-01-31 10:00:00.123456 E | etcdmain: cannot listen', 'error'],
  ['2026-01-31 10:00:00.123456 N | etcdmain: started', 'info'],
  ['2026-01-31T10:00:00.123+0000 I NETWORK  [listener] connection accepted', 'info'],
  ['{"t":{"$date":"2026-01-31T10:00:00Z"},"s":"E","c":"STORAGE","msg":"x"}', 'error'],
  ['{"t":{"$date":"2026-01-31T10:00:00Z"},"s":"D2","c":"QUERY","msg":"x"}', 'debug'],
  ['{"s":"E"}', null],
  ['1:M 31 Jan 2026 10:00:00.000 # Server initialized', 'warn'],
  ['1:M 31 Jan 2026 10:00:00.000 * Ready to accept connections', 'info'],
  ['PHP Fatal error:  Uncaught Exception', 'error'],
  ['[31-Jan-2026 10:00:00 UTC] PHP Warning:  Undefined variable', 'warn'],
  ['[31-Jan-2026 10:00:00 UTC] PHP Notice:  Undefined index', 'info'],
  ['(node:12) [DEP0005] DeprecationWarning: Buffer() is deprecated', 'warn'],
  ['(node:12) Warning: Setting the NODE_TLS_REJECT_UNAUTHORIZED', 'warn'],
  ['I am: here', null],
  ['fail2ban started', null],
  ['failed: 0', null],
  // Colours
  ['\x1b[31merr\x1b[0mor: cannot find file', 'error'],
  ['[\x1b[33mWARN\x1b[0m] disk full', 'warn'],
  ['\x1b[2m12:04:11\x1b[0m \x1b[32mINF\x1b[0m started', 'info'],
  // Plain text
  ['ERROR could not connect', 'error'],
  ['2026-11-21T12:04:11.123Z ERROR could not connect', 'error'],
  ['2026-11-21 12:04:11,123 [main] WARN  c.e.App - slow', 'warn'],
  ['2026-11-21 12:04:11 INFO  started', 'info'],
  ['12:04:11.123 DEBUG x=1', 'debug'],
  ['TRACE enter', 'debug'],
  ['FATAL: out of memory', 'error'],
  ['CRITICAL disk full', 'error'],
  ['Warning: deprecated option', 'warn'],
  ['warning: unused variable', 'warn'],
  ['error: cannot find file', 'error'],
  ['Error: listen EADDRINUSE: address already in use :::3000', 'error'],
  ["TypeError: Cannot read properties of undefined (reading 'x')", 'error'],
  ['java.lang.NullPointerException: x', 'error'],
  ['Exception in thread "main" java.lang.Error', 'error'],
  ['Traceback (most recent call last):', 'error'],
  ['panic: runtime error: index out of range', 'error'],
  ["thread 'main' panicked at src/main.rs:2:5:", 'error'],
  ['npm ERR! code ELIFECYCLE', 'error'],
  ['npm WARN deprecated x@1', 'warn'],
  ['[2026-11-21 12:04:11] production.ERROR: x {"a":1}', 'error'],
  ['I, [2026-11-21T12:04:11.123456 #1]  INFO -- : Started', 'info'],
  ['INFO:     127.0.0.1:1234 - "GET / HTTP/1.1" 200 OK', 'info'],
  ['WARNING:root:careful', 'warn'],
  ['E1121 12:04:11.123456       1 reflector.go:1] failed', 'error'],
  ['W1121 12:04:11.123456       1 x.go:1] slow', 'warn'],
  ['I1121 12:04:11.123456       1 x.go:1] ok', 'info'],
  ['2026-11-21 12:04:11.123 UTC [42] ERROR:  relation "x" does not exist', 'error'],
  ['2026-11-21 12:04:11.123 UTC [42] LOG:  checkpoint starting', 'info'],
  ['\x1b[31mERROR\x1b[0m in color', 'error'],
  ['\x1b[33m[warn]\x1b[39m in color', 'warn'],
  ['INFO the last ERROR was long ago', 'info'],
  // Other common formats
  ['D, [2026-11-21T12:04:11 #1] -- : detail', 'debug'],
  ['=CRASH REPORT==== 21-Nov-2026::12:04:11 ===', 'error'],
  ['=WARNING REPORT==== 21-Nov-2026::12:04:11 ===', 'warn'],
  ['** (RuntimeError) boom', 'error'],
  ['21-Nov-2026 12:04:11.123 FINE [main] org.apache.x', 'debug'],
  ['21-Nov-2026 12:04:11.123 SEVERE [main] org.apache.x', 'error'],
  ['FINEST: detail', 'debug'],
  ['A FINE example', null],
  ['\u2a2f Error: boom', 'error'],
  ['\u2716 failed', 'error'],
  ['\u26a0 slow', 'warn'],
  ['[Nest] 1  - 11/21/2026, 12:04:11 PM     LOG [Main] started', 'info'],
  ['[E 2026-11-21 12:04:11.123 ServerApp] failed', 'error'],
  ['[W 261121 12:04:11 web:2] 404 GET /', 'warn'],
  ['[E] a letter in brackets', null],
  ['2026.11.21 12:04:11.123456 [ 1 ] {} <Error> Application: failed', 'error'],
  ['2026.11.21 12:04:11.123456 [ 1 ] {} <Debug> Loader: Error', 'debug'],
  ['<Error>no time</Error>', null],
  ['{"Level":"Error","MessageTemplate":"x"}', 'error'],
  ['{"@l":"Warning","@m":"x"}', 'warn'],
  ['{"LogLevel":"Critical"}', 'error'],
  ['{"level_name":"WARNING","level":300}', 'warn'],
  ['{"severity_text":"ERROR"}', 'error'],
  ['{"severityText":"WARN"}', 'warn'],
  ['{"log_level":"error"}', 'error'],
  ['{"level":{"name":"ERROR"}}', 'error'],
  ['{"Level":"Error","cut', 'error'],
  ['Fatal error: Uncaught', 'error'],
  ['DeprecationWarning: old', 'warn'],
  ['/srv/app.py:3: UserWarning: old', 'warn'],
  ['Segmentation fault (core dumped)', 'error'],
  // Not a level
  ['', null],
  ['    at Object.<anonymous> (/srv/app.js:10:14)', null],
  ['GET /error HTTP/1.1', null],
  ['no errors were found', null],
  ['10.0.0.1 - - [21/Nov/2026:12:04:11 +0100] "GET /ERROR.html HTTP/1.1" 200', null],
  ['information about the error', null],
  ['errors=0', null],
  ['MY_ERROR_COUNT 3', null],
  [`${'x'.repeat(400)} ERROR`, null],
  // JSON: pino and bunyan, winston, zap, slog, Logback, GELF, journald
  ['{"level":10,"msg":"x"}', 'debug'],
  ['{"level":20,"time":1795262651123,"msg":"x"}', 'debug'],
  ['{"level":30,"msg":"x"}', 'info'],
  ['{"level":40,"msg":"x"}', 'warn'],
  ['{"level":50,"msg":"x"}', 'error'],
  ['{"level":60,"msg":"x"}', 'error'],
  ['{"name":"app","hostname":"h","pid":1,"level":50,"msg":"x","time":"2026-11-21T12:04:11Z","v":0}', 'error'],
  ['{"level":35,"msg":"a level of one\'s own"}', 'info'],
  ['{"level":"error","message":"x"}', 'error'],
  ['{"message":"an ERROR in the text","level":"info"}', 'info'],
  ['{"level":"\\u001b[32minfo\\u001b[39m","message":"winston in colors"}', 'info'],
  ['{"level":"http","message":"x"}', 'info'],
  ['{"level":"silly","message":"x"}', 'debug'],
  ['{"severity":"WARNING","message":"x"}', 'warn'],
  ['{"log.level":"warn","@timestamp":"2026-11-21T12:04:11Z"}', 'warn'],
  ['{"log":{"level":"error"},"message":"x"}', 'error'],
  ['{"levelname":"CRITICAL"}', 'error'],
  ['{"version":"1.1","level":3,"short_message":"x"}', 'error'],
  ['{"level":4}', 'warn'],
  ['{"level":6}', 'info'],
  ['{"PRIORITY":"7","MESSAGE":"x"}', 'debug'],
  ['{"context":{"level":50},"level":"debug"}', 'debug'],
  ['{"msg":"no level"}', null],
  ['{"level":"purple"}', null],
  ['{"level":null}', null],
  ['{"level":50,"msg":"cut in the mid', 'error'],
  ['{', null],
  // pm2
  ['{"message":"x\\n","timestamp":"2026-11-21T12:04:11","type":"err","process_id":0,"app_name":"shop"}', 'error'],
  ['{"message":"x\\n","timestamp":"2026-11-21T12:04:11","type":"out","process_id":0,"app_name":"shop"}', 'info'],
  ['2026-11-21T12:04:11: PM2 error: App [shop] with id [0] errored', 'error'],
  ['2026-11-21T12:04:11: PM2 log: App [shop:0] online', 'info'],
  ['0|shop     | WARN slow', 'warn'],
  ['0|shop     | {"level":50,"msg":"x"}', 'error'],
  // logfmt
  ['time=2026-11-21T12:04:11Z level=error msg="x"', 'error'],
  ['level=warn ts=1', 'warn'],
  ['ts=1 lvl=dbgx', null],
  ['level="info" msg=x', 'info'],
  ['time="2026-11-21T12:04:11Z" level=debug msg="ERROR in the text"', 'debug'],
  ['user_level=error', null],
  // syslog
  ['<11>1 2026-11-21T12:04:11Z host app 1 - - x', 'error'],
  ['<34>Nov 21 12:04:11 host su: x', 'error'],
  ['<12>Nov 21 12:04:11 host x', 'warn'],
  ['<14>Nov 21 12:04:11 host x', 'info'],
  ['<15>Nov 21 12:04:11 host x', 'debug'],
  ['<999>x', null],
  ['Nov 21 12:04:11 host kernel: [1.2] x', null],
  ['Nov 21 12:04:11 host app[1]: ERROR x', 'error'],
  // Error logs of servers
  ['2026/11/21 12:04:11 [error] 12#12: *1 open() failed', 'error'],
  ['2026/11/21 12:04:11 [warn] 12#12: *1 buffered', 'warn'],
  ['2026/11/21 12:04:11 [notice] 12#12: start', 'info'],
  ['2026/11/21 12:04:11 [crit] 12#12: x', 'error'],
  ['2026/11/21 12:04:11 [debug] 12#12: x', 'debug'],
  ['[Sat Nov 21 12:04:11.123 2026] [core:error] [pid 1] x', 'error'],
  ['2026-11-21T12:04:11Z 0 [Warning] [MY-010068] x', 'warn'],
  ['2026-11-21T12:04:11Z 0 [Note] x', 'info']
]

t.test('reads the level of a line', async t => {
  for (const [line, level] of table) t.equal(levelOfLine(line), level, line.slice(0, 100))
})

t.test('returns the range of the word', async t => {
  for (const [line, word] of [
    ['2026/11/21 12:04:11 [error] 12#12: x', 'error'],
    ['ts=1 level=warn msg=x', 'warn'],
    ['12:04:11 INFO x', 'INFO'],
    ['[core:error] x', 'error'],
    ['Error: x', 'Error'],
    ['0|shop  | WARN x', 'WARN'],
    ['{"level":50}', ''],
    ['<11>x', '']
  ] as const) {
    const found = levelIn(line)
    t.equal(line.slice(found?.from, found?.to), word, line)
  }
})

t.test('every line is cheap', async t => {
  for (const piece of ['[', '[a:', 'level=', '{"level":', '1|a', 'a.a', '\x1b[', ' ', 'Error', '<1']) {
    const started = performance.now()
    levelOfLine(piece.repeat(200_000))
    t.ok(performance.now() - started < 2000, JSON.stringify(piece))
  }
})

t.test('compares levels by severity', async t => {
  t.ok(reachesLevel('error', 'warn'))
  t.ok(reachesLevel('warn', 'warn'))
  t.notOk(reachesLevel('info', 'warn'))
})

const now = Date.parse('2026-11-21T12:00:00Z')

t.test('a time without a zone is in the given zone', async t => {
  for (const [text, zoneMinutes, expected] of [
    ['2026-11-21 10:04:11 x', 0, '2026-11-21T10:04:11.000Z'],
    ['2026-11-21 10:04:11 x', 480, '2026-11-21T02:04:11.000Z'],
    ['2026/11/21 10:04:11 [error] x', -330, '2026-11-21T15:34:11.000Z'],
    ['Nov 21 10:04:11 host x', 60, '2026-11-21T09:04:11.000Z'],
    ['Dec 24 10:04:11 host x', 60, '2025-12-24T09:04:11.000Z'],
    ['2026-11-21T10:04:11Z x', 480, '2026-11-21T10:04:11.000Z'],
    ['2026-11-21T10:04:11+01:00 x', 480, '2026-11-21T09:04:11.000Z'],
    ['[21/Nov/2026:10:04:11 +0000] x', 480, '2026-11-21T10:04:11.000Z']
  ] as const) {
    t.equal(new Date(timeOfLine(text, now, zoneMinutes) as number).toISOString(), expected, `${text} ${zoneMinutes}`)
  }
  t.equal(
    timeOfLine('2026-11-21 10:04:11', now),
    new Date(2026, 10, 21, 10, 4, 11).getTime(),
    'otherwise in the local zone'
  )
  t.equal(timeOfLine('no time', now, 0), null)
})

const iso = (text: string): string | null => {
  const time = timeOfLine(text, now)
  return time === null ? null : new Date(time).toISOString()
}
const local = (...parts: [number, number, number, number, number, number, number?]): string =>
  new Date(...parts).toISOString()

t.test('reads the time of a line', async t => {
  for (const [text, expected] of [
    ['2026-11-21T10:04:11.123Z GET /', '2026-11-21T10:04:11.123Z'],
    ['2026-11-21T10:04:11+02:00 GET /', '2026-11-21T08:04:11.000Z'],
    ['2026-11-21 10:04:11,123 +0200 [main] INFO', '2026-11-21T08:04:11.123Z'],
    ['[2026-11-21T10:04:11.123456789Z] x', '2026-11-21T10:04:11.123Z'],
    ['\x1b[90m2026-11-21T10:04:11Z\x1b[0m x', '2026-11-21T10:04:11.000Z'],
    ['level=info ts=2026-11-21T10:04Z', '2026-11-21T10:04:00.000Z'],
    ['10.0.0.1 - - [21/Nov/2026:10:04:11 +0100] "GET / HTTP/1.1" 200', '2026-11-21T09:04:11.000Z'],
    ['{"level":30,"time":1795262651123,"msg":"x"}', new Date(1795262651123).toISOString()],
    ['{"ts":1795262651.5,"msg":"x"}', new Date(1795262651500).toISOString()],
    ['{"msg":"x","timestamp":"2026-11-21T10:04:11Z"}', '2026-11-21T10:04:11.000Z'],
    ['2026/11/21 10:04:11 [error] 12#12: x', local(2026, 10, 21, 10, 4, 11)],
    ['2026-11-21 10:04:11.5 x', local(2026, 10, 21, 10, 4, 11, 500)],
    ['Nov 21 10:04:11 host sshd[1]: x', local(2026, 10, 21, 10, 4, 11)],
    ['<34>Nov  1 10:04:11 host su: x', local(2026, 10, 1, 10, 4, 11)],
    ['Dec 24 10:04:11 host x', local(2025, 11, 24, 10, 4, 11)],
    ['    at Object.<anonymous> (/srv/app.js:10:14)', null],
    ['listening on 12:34', null],
    ['2026-13-41T10:04:11Z', null],
    ['', null]
  ] as const) {
    t.equal(iso(text), expected, text)
  }
})

t.test('searches only the beginning of a line', async t => {
  t.equal(timeOfLine(`${'x'.repeat(400)} 2026-11-21T10:04:11Z`, now), null)
})

const sequences: ReadonlyArray<readonly [text: string, visible: string]> = [
  ['plain', 'plain'],
  ['\x1b[31merr\x1b[0mor', 'error'],
  ['\x1b[38;2;1;2;3m\x1b[1mx\x1b[m', 'x'],
  ['\x1b[2K\x1b[1Gx', 'x'],
  ['\x1b]8;;http://x/\x1b\\link\x1b]8;;\x07', 'link'],
  ['\x1b]0;title\x07x', 'x'],
  ['\x1bP1;2q\x1b\\x', 'x'],
  ['\x1b(Bx', 'x'],
  ['x\x1b[3', 'x'],
  ['x\x1b[3\ny', 'x\ny'],
  ['x\x1b]never ends\ny', 'x\ny'],
  ['x\x1b', 'x\x1b']
]

for (const [text, visible] of sequences) {
  t.test(`shows ${JSON.stringify(visible)} of ${JSON.stringify(text)}`, async t => {
    t.equal(visibleText(text), visible)
  })
}

t.test('finds the end of several sequences', async t => {
  t.equal(endOfSequences('a\x1b[1m\x1b[2mb', 1), 9)
  t.equal(endOfSequences('a\x1b[1m\x1b[2mb', 0), 0)
  t.equal(endOfSequences('\x1b', 0), 0)
})
