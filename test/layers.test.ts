import t from 'tap'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { fileURLToPath } from 'node:url'

/**
 * The house rules a compiler does not check: imports point down, the environment and the network are touched only where
 * an auditor expects it, every source has its test.
 */
const top = fileURLToPath(new URL('../../', import.meta.url))

/** Rooms by layer, lowest first. A file may import its own room and any lower layer. */
const layers = [
  ['base'],
  ['model'],
  ['http', 'archive', 'target', 'store', 'proc', 'config'],
  ['projects', 'deploy', 'backup', 'logs', 'notify', 'transfer', 'system', 'terminal', 'auth'],
  ['api', 'cli'],
  ['main']
]

/** Imports against the direction, each with its reason. */
const exceptions: Record<string, string> = {
  'cli/commands/serve.ts → main/serve.ts': 'the command starts the server; loaded when it runs, so other commands do not pay',
  'cli/local.ts → main/local.ts': 'without a server the command runs the services itself; loaded only then'
}

interface Source {
  /** Below lib, e.g. `deploy/queue.ts`. */
  path: string
  room: string
  text: string
}

function readSources(directory: string): Source[] {
  return readdirSync(join(top, directory), { recursive: true, encoding: 'utf8' })
    .filter(path => path.endsWith('.ts') && !path.endsWith('.d.ts'))
    .map(path => path.replaceAll('\\', '/'))
    .map(path => ({ path, room: path.split('/')[0] as string, text: readFileSync(join(top, directory, path), 'utf8') }))
}

function importsOf(source: Source): string[] {
  return [...source.text.matchAll(/^(?:import|export)\s+(?:[\w\s{},*$]+\sfrom\s+)?'([^']+)'|\bimport\('([^']+)'\)/gm)]
    .map(match => (match[1] ?? match[2]) as string)
}

const sources = readSources('lib')

t.test('every room of lib is in a layer', async t => {
  const known = layers.flat()
  for (const { room, path } of sources) t.ok(known.includes(room), `${path} is in a known room`)
})

t.test('imports of lib point down', async t => {
  const layerOf = (room: string) => layers.findIndex(rooms => rooms.includes(room))
  for (const source of sources) {
    for (const specifier of importsOf(source).filter(specifier => specifier.startsWith('.'))) {
      const path = normalize(join(dirname(source.path), specifier)).replaceAll('\\', '/').replace(/\.js$/, '.ts')
      const room = path.split('/')[0] as string
      const edge = `${source.path} → ${path}`
      if (edge in exceptions) continue
      t.ok(room === source.room || layerOf(room) < layerOf(source.room), edge)
    }
  }
})

t.test('lib imports Node and its four packages, nothing else', async t => {
  for (const source of sources) {
    for (const specifier of importsOf(source).filter(specifier => !specifier.startsWith('.'))) {
      t.ok(/^(node:.*|yauzl|yazl|sql\.js(\/.*)?|node-pty)$/.test(specifier), `${source.path} imports ${specifier}`)
    }
  }
})

/** What only some rooms may touch: [what, how it looks, where it is allowed]. */
const reserved: Array<[what: string, pattern: RegExp, allowed: RegExp]> = [
  ['the environment', /process\.env/, /^(config|main)\//],
  ['the network', /'node:(http|https|http2|net|tls|dgram)'/, /^(http\/|notify\/|cli\/client|store\/owner\.ts)/],
  ['child processes', /'node:child_process'/, /^(proc\/|cli\/)/],
  ['code made of text', /\b(eval|new Function)\(/, /^$/]
]

for (const [what, pattern, allowed] of reserved) {
  t.test(`only the rooms for it touch ${what}`, async t => {
    for (const source of sources.filter(source => !allowed.test(source.path))) {
      const line = source.text.split('\n').find(line => pattern.test(line) && !/^\s*(\/\/|\*|\/\*|import type)/.test(line))
      t.equal(line, undefined, source.path)
    }
  })
}

/** Sources without a test of their own name, each with the reason. */
const testedElsewhere: Array<[path: RegExp, reason: string]> = [
  [/^transfer\/(package|needs)\.ts$/, 'types and constants'],
  [/^transfer\/(export|fields|pack-target|plan|read-package|records|scratch|transfer)\.ts$/, 'api/migration.test.ts: whole packages'],
  [/^backup\/(format|contents|snapshot|backup|check-database|restore)\.ts$/, 'cli/commands/backup.test.ts and restore.test.ts: whole backups'],
  [/^api\/(backup|write-to)\.ts$/, 'cli/commands/backup.test.ts and export.test.ts: over the socket of the data directory'],
  [/^cli\/zip-download\.ts$/, 'commands/export.test.ts, commands/backup.test.ts: through the commands'],
  [/^(cli|main)\/local\.ts$/, 'cli/commands/import.test.ts: with a server and without'],
  [/^main\/(front|table)\.ts$/, 'services.test.ts and listener.test.ts: what is built of them'],
  [/^store\/page-check-thread\.ts$/, 'page-check.test.ts'],
  [/^model\//, 'types and constants'],
  [/^archive\/segment-worker\.ts$/, 'segment-threads.test.ts'],
  [/^archive\/zip-records\.ts$/, 'write-file.test.ts: read by unzip, by Python, and by our own reader'],
  [/^base\/refusal\.ts$/, 'types; every other test meets them'],
  [/^(http\/route|deploy\/needs)\.ts$/, 'types'],
  [/^cli\/(command|common-options)\.ts$/, 'types and rows'],
  [/^cli\/answer\.ts$/, 'client.test.ts: the answers of real servers'],
  [/^cli\/progress\.ts$/, 'output.test.ts'],
  [/^cli\/(session|interrupts|watch|packing)\.ts$/, 'commands/push.test.ts: through the command'],
  [/^cli\/deployment-table\.ts$/, 'commands/status.test.ts: through the command'],
  [/^cli\/prompt\.ts$/, 'commands/init.test.ts: on a terminal'],
  [/^cli\/commands\/completion\.ts$/, 'completion.test.ts, in a real shell'],
  [/^cli\/runtime\.ts$/, 'commands/serve.test.ts'],
  [/^cli\/commands\/cancel\.ts$/, 'commands/logs.test.ts: beside the deployment it cancels'],
  [/^cli\/(project-variables|commands\/env-(list|unset|import))\.ts$/, 'commands/env-set.test.ts: the four work on the same variables'],
  [/^api\/description\//, 'api/description/document.test.ts; support/described.ts checks every answer that a test sees'],
  [/^store\/tables\/variables\.ts$/, 'projects/variables.test.ts: what is written and read'],
  [/^cli\/commands\/(logout|whoami)\.ts$/, 'commands/login.test.ts: what was logged in to'],
  [/^cli\/commands\/projects-(create|show|set|token|delete)\.ts$/, 'commands/projects.test.ts: the life of a project'],
  [/^cli\/project-options\.ts$/, 'commands/projects.test.ts: through the commands'],
  [/^cli\/ask-server\.ts$/, 'commands/login.test.ts: on a terminal'],
  [/^cli\/commands\/version\.ts$/, 'main.test.ts'],
  [/^cli\/commands\/telemetry-(on|off|status|endpoint)\.ts$/, 'cli/telemetry.test.ts: the four change one another'],
  [/^proc\/pty-(input|output)\.ts$/, 'pty.test.ts: on real terminals'],
  [/^terminal\/session\.ts$/, 'sessions.test.ts: with real shells'],
  [/^http\/(body|broken-request|connections|exchange|linger|peers|send|sink)\.ts$/, 'parts of the server: server.test.ts, over sockets'],
  [/^http\/multipart-parser\.ts$/, 'multipart.test.ts, through its fixtures'],
  [/^target\/put-back\.ts$/, 'undo.test.ts: whole journals'],
  [/^target\/(disk|record|stage)\.ts$/, 'parts of one extraction: test/deploy/extraction and extract-faults'],
  [/^logs\/(generation|watch)\.ts$/, 'tail.test.ts: what follows a file, and what wakes it'],
  [/^logs\/search-(worker|threads|gate)\.ts$/, 'search.test.ts: a search in its threads'],
  [/^logs\/(text|contents)\.ts$/, 'window.test.ts'],
  [/^logs\/(viewer|sources|inflated)\.ts$/, 'api/log-sources.test.ts: over a socket'],
  [/^store\/tables\/log-sources\.ts$/, 'api/log-sources.test.ts: over a socket'],
  [/^system\/metrics\.ts$/, 'api/metrics.test.ts: over a socket'],
  [/^store\/tables\/machine-history\.ts$/, 'system/history.test.ts: in a store'],
  [/^store\/tables\/notification-targets\.ts$/, 'notify/targets.test.ts: in a store'],
  [/^deploy\/stage-worker\.ts$/, 'second-stage.test.ts: the inside of that thread'],
  [/^deploy\/(extract-worker|stage-entries)\.ts$/, 'the threads of one extraction: test/deploy/extract'],
  [/^deploy\/(executors|extract-helper|extraction-files)\.ts$/, 'threads and helper processes: test/deploy/extract-threads, test/deploy/extract-helpers'],
  [/^(projects\/(targets|target-helper)|transfer\/pack-helper)\.ts$/, 'api/run-as.test.ts, and api/files.test.ts without a user'],
  [/^deploy\/(background|script-processes)\.ts$/, 'interrupted-scripts.test.ts: scripts of servers that were killed'],
  [/^proc\/helper-process\.ts$/, 'the inside of a helper process: test/proc/helper']
]

t.test('every source of lib has a test of its name', async t => {
  for (const { path } of sources) {
    if (testedElsewhere.some(([pattern]) => pattern.test(path))) continue
    t.ok(existsSync(join(top, 'test', path.replace(/\.ts$/, '.test.ts'))), `test/${path.replace(/\.ts$/, '.test.ts')}`)
  }
})

t.test('nothing is exported by default, and nothing is re-exported', async t => {
  for (const { path, text } of sources) t.notMatch(text, /^export (default\b|\*|\{[^}]*\} from)/m, path)
})
