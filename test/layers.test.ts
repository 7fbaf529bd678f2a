import t from 'tap'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { fileURLToPath } from 'node:url'
import * as ts from 'typescript'
import { layers, roomOf, rooms } from './support/rooms.js'

/**
 * The house rules a compiler does not check: imports point down, the environment and the network are touched only where
 * an auditor expects it, every source has its test.
 */
const top = fileURLToPath(new URL('../../', import.meta.url))

const mostRooms = 14

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
    .map(path => ({ path, room: roomOf(path), text: readFileSync(join(top, directory, path), 'utf8') }))
}

/** What a file imports when it is loaded, types included. */
function importedAtOnce({ text }: Source): string[] {
  return [...text.matchAll(/^(?:import|export)\s+(?:[\w\s{},*$]+\sfrom\s+|\w+ = require\()?'([^']+)'/gm)].map(
    match => match[1] as string
  )
}

function importsOf(source: Source): string[] {
  const later = [...source.text.matchAll(/\bimport\('([^']+)'\)/g)].map(match => match[1] as string)
  return [...importedAtOnce(source), ...later]
}

const sources = readSources('lib')

t.test('every room of lib is in a layer', async t => {
  for (const { room, path } of sources) t.ok(rooms.includes(room), `${path} is in a known room`)
  const folders = new Set(sources.map(({ path }) => path.slice(0, path.indexOf('/'))))
  t.ok(folders.size <= mostRooms, `${folders.size} rooms at the top`)
})

t.test('the panel loads nothing of lib but what is compiled for it', async t => {
  // Types are gone when it runs; a module of lib would be 404.
  for (const { path, text } of readSources('www')) t.notMatch(text, /^import (?!type )[^']*'[./]+\/lib\//m, path)
})

t.test('imports of lib point down', async t => {
  const layerOf = (room: string) => layers.findIndex(layer => layer.includes(room))
  for (const source of sources) {
    for (const specifier of importsOf(source).filter(specifier => specifier.startsWith('.'))) {
      const path = normalize(join(dirname(source.path), specifier))
        .replaceAll('\\', '/')
        .replace(/\.js$/, '.ts')
      const room = roomOf(path)
      t.ok(room === source.room || layerOf(room) < layerOf(source.room), `${source.path} → ${path}`)
    }
  }
})

t.test('the core knows the model and the base, nothing else', async t => {
  const core = sources.filter(({ path }) => path.startsWith('core/'))
  t.ok(core.length > 80)
  for (const source of core) {
    for (const specifier of importsOf(source).filter(specifier => specifier.startsWith('.'))) {
      const path = normalize(join(dirname(source.path), specifier))
      t.match(path, /^(core|model|base)\//, `${source.path} → ${path}`)
    }
  }
})

t.test('only the server, the API and their commands know fleet and cluster', async t => {
  const known = /^(server|api|cli|cluster)\//
  for (const source of sources.filter(({ path }) => !known.test(path) && !path.startsWith('fleet/'))) {
    const of = importsOf(source).filter(each => /^(fleet|cluster)\//.test(normalize(join(dirname(source.path), each))))
    t.strictSame(of, [], source.path)
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
  ['the environment', /process\.env/, /^(base\/config|server)\//],
  // A helper process speaks over a pair of sockets that it inherits.
  [
    'the network',
    /'node:(http|https|http2|net|tls|dgram)'/,
    /^(http\/|cli\/client\/|core\/store\/owner\.ts|cluster\/(etcd\/connection|forward|forwarded)\.ts|base\/socket-probe\.ts|core\/proc\/run\.ts|core\/proc\/helper-process\.ts)/
  ],
  ['child processes', /'node:child_process'/, /^(core\/proc\/|cli\/)/],
  ['code made of text', /\b(eval|new Function)\(/, /^$/]
]

for (const [what, pattern, allowed] of reserved) {
  t.test(`only the rooms for it touch ${what}`, async t => {
    for (const source of sources.filter(source => !allowed.test(source.path))) {
      const line = source.text
        .split('\n')
        .find(line => pattern.test(line) && !/^\s*(\/\/|\*|\/\*|import type)/.test(line))
      t.equal(line, undefined, source.path)
    }
  })
}

/**
 * Whether a source does something: has a function or a class. What is left are types, constants and tables of rows,
 * which the compiler checks.
 */
function hasCode({ path, text }: Source): boolean {
  const visit = (node: ts.Node): boolean =>
    ts.isClassLike(node) || (ts.isFunctionLike(node) && 'body' in node && node.body !== undefined)
      ? true
      : (ts.forEachChild(node, visit) ?? false)
  return visit(ts.createSourceFile(path, text, ts.ScriptTarget.ESNext))
}

const testOf = (path: string): string => `test/${path.replace(/\.ts$/, '.test.ts')}`
const isTested = ({ path }: Source): boolean => existsSync(join(top, testOf(path)))

/**
 * Whether a source is the inside of a thread or of a process, such as `core/store/page-check-thread.ts`, that is tested
 * with its owner: the file of the name before the hyphen, or the one that starts it.
 */
function isInside({ path, room }: Source): boolean {
  const owner = /^(.+)-(?:worker|helper|thread|process)\.ts$/.exec(path)?.[1]
  if (owner === undefined) return false
  const file = `'./${path.slice(path.lastIndexOf('/') + 1).replace(/\.ts$/, '.js')}', import.meta.url`
  const starter = sources.find(source => source.room === room && source.text.includes(file))
  return existsSync(join(top, testOf(`${owner}.ts`))) || (starter !== undefined && isTested(starter))
}

/** Sources without a test of their own name, each with the reason. */
const testedElsewhere: Array<[path: RegExp, reason: string]> = [
  [/^cli\/commands\/cluster\.ts$/, 'cluster/begin.test.ts: the life of a cluster, with real etcd']
]

t.test('every source of lib that does something has a test of its name', async t => {
  const untested = sources.filter(source => !isTested(source) && hasCode(source) && !isInside(source))
  for (const { path } of untested.filter(({ path }) => !testedElsewhere.some(([pattern]) => pattern.test(path)))) {
    t.fail(testOf(path))
  }
  for (const [pattern] of testedElsewhere) {
    t.ok(
      untested.some(({ path }) => pattern.test(path)),
      `${pattern} is still needed`
    )
  }
  t.ok(testedElsewhere.length <= 2, 'exceptions stay few')
})

/** Each circle of files that import one another, types included, as a line; the shortest from each file. */
function circlesOf(files: readonly Source[], importsOf: (source: Source) => string[]): string[] {
  const next = new Map(files.map(source => [source.path, importsOf(source)]))
  const circles = new Map<string, string>()
  for (const start of next.keys()) {
    const from = new Map<string, string>()
    const queue = [start]
    for (let path = queue.shift(); path !== undefined && !from.has(start); path = queue.shift()) {
      for (const to of next.get(path) ?? []) {
        if (from.has(to)) continue
        from.set(to, path)
        queue.push(to)
      }
    }
    if (!from.has(start)) continue
    const circle = [start]
    for (let path = from.get(start) as string; path !== start; path = from.get(path) as string) circle.unshift(path)
    circles.set([...circle].sort().join(), circle.join(' → '))
  }
  return [...circles.values()]
}

for (const directory of ['lib', 'www']) {
  t.test(`no files of ${directory} import one another in a circle`, async t => {
    const files = readSources(directory)
    const pathsOf = (source: Source): string[] =>
      importedAtOnce(source)
        .filter(specifier => specifier.startsWith('.'))
        .map(specifier => normalize(join(dirname(source.path), specifier)).replace(/\.js$/, '.ts'))
    t.strictSame(circlesOf(files, pathsOf), [])
  })
}

t.test('nothing is exported by default, and nothing is re-exported', async t => {
  for (const { path, text } of sources) t.notMatch(text, /^export (default\b|\*|\{[^}]*\} from)/m, path)
})

/** Returns what a file needs when it runs: of what it imports at once, all but types. */
function neededAtOnce({ path, text }: Source): string[] {
  const named = [...text.matchAll(/^import (?!type )([\w\s{},*$]+?) from '([^']+)'/gm)]
  const isNeeded = (names: string): boolean => !/^\{(\s*type [\w\s]+,?)+\}$/.test(names)
  return named
    .filter(([, names = '']) => isNeeded(names))
    .map(([, , specifier = '']) =>
      specifier.startsWith('.') ? normalize(join(dirname(path), specifier)).replace(/\.js$/, '.ts') : specifier
    )
}

/** Returns what these files load, and what that loads. */
function loadedBy(...roots: string[]): Set<string> {
  const loaded = new Set(roots)
  for (const path of loaded) {
    const source = sources.find(each => each.path === path)
    for (const needed of source === undefined ? [] : neededAtOnce(source)) loaded.add(needed)
  }
  return loaded
}

t.test('a server loads nothing of its services before it listens', async t => {
  const loaded = loadedBy('server/serve.ts')
  const late =
    /^(access(?!\/admin-token|\/secret|\/session-key)|projects|deploy|fleet|cluster|operate\/(logs|notify|terminal)|carry\/transfer|core\/(archive|audit|install|proof|proc|store\/tables(?!\/start)))|^node:(child_process|process)$/
  t.ok(loaded.has('operate/machine/probe.ts') && loaded.has('core/store/durable-store.ts'))
  t.strictSame(
    [...loaded].filter(path => late.test(path)),
    [],
    'server/serve.ts loads the rest when it listens'
  )
})

t.test('a start loads no handler, and no room that few requests need', async t => {
  const loaded = loadedBy('server/services.ts', 'server/table.ts', 'server/begin.ts')
  const behindDoors =
    /^(api\/(?!(routes|route|records|probe)\.ts)|fleet|cluster|operate\/(logs|terminal|pm2)|carry\/(transfer|backup\/(?!place|revoked))|core\/proc\/(pty|helper)|http\/(form|static|streams))/
  t.ok(loaded.has('api/routes.ts') && loaded.has('deploy/run.ts'))
  t.strictSame(
    [...loaded].filter(path => behindDoors.test(path)),
    [],
    'base/async.ts says when they are loaded'
  )
})

t.test('lib calls nothing that Node 18 lacks', async t => {
  for (const { path, text } of sources)
    t.notMatch(text, /\.(toSorted|toReversed|toSpliced)\(|\b(Object|Map)\.groupBy\(|Promise\.withResolvers/, path)
})
