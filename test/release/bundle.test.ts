import { execFileSync } from 'node:child_process'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync
} from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import type { Test } from 'tap'
import { createClient } from '../support/client.js'
import { cannotIsolate } from '../support/namespaces.js'
import { startServed } from '../support/served.js'
import { noPty } from '../support/web-terminal.js'
import { commitSeconds, makeBundles } from './bundle.js'
import { lockedPackages, top } from './dependencies.js'
import { isThorough } from '../support/thorough.js'

// Outside of the checkout, because below it Node would find the packages of the checkout.
const directory = mkdtempSync(join(tmpdir(), 'svc-bundle-'))
t.teardown(() => rmSync(directory, { recursive: true, force: true }))
const made = await makeBundles(join(directory, 'made'))
const [whole, client] = made as [{ path: string; bytes: number }, { path: string; bytes: number }]
const run = (program: string, ...words: string[]): string => execFileSync(program, words, { encoding: 'utf8' })

function unpack(path: string): string {
  const to = join(directory, 'unpacked')
  mkdirSync(to, { recursive: true })
  run('tar', 'xzf', path, '-C', to)
  return join(to, run('tar', 'tzf', path).split('/')[0] as string)
}
const server = unpack(whole.path)
const clientOnly = unpack(client.path)

const onlyThorough = !isThorough && 'it is part of make soak'

// The next test says the same of a checkout elsewhere.
t.test('one commit gives the same bytes twice', { skip: onlyThorough }, async t => {
  const again = await makeBundles(join(directory, 'again'))
  for (const [index, { path }] of made.entries()) {
    t.ok(readFileSync(path).equals(readFileSync(again[index]?.path as string)), path)
  }
})

t.test("so does a checkout elsewhere, of another user's habits, in which something older was built", async t => {
  const elsewhere = join(directory, 'elsewhere/with a space')
  mkdirSync(elsewhere, { recursive: true })
  for (const path of [
    'bin',
    'lib',
    'www',
    'dist/lib',
    'dist/www',
    'dist/test/release',
    'test/release/audit.json',
    'test/release/debian',
    'package.json',
    'package-lock.json',
    'README.md',
    'CHANGELOG.md',
    'LICENSE',
    'docs'
  ])
    cpSync(join(top, path), join(elsewhere, path), { recursive: true })
  symlinkSync(join(top, 'node_modules'), join(elsewhere, 'node_modules'))
  execFileSync('chmod', ['-R', 'go-rwx', elsewhere])
  for (const path of ['dist/lib/cli/removed.js', 'dist/www/styles/removed.css'])
    writeFileSync(join(elsewhere, path), '')
  const to = join(directory, 'made-elsewhere')
  const env = {
    PATH: process.env['PATH'],
    TZ: 'Asia/Tokyo',
    LC_ALL: 'tr_TR.UTF-8',
    SOURCE_DATE_EPOCH: String(commitSeconds())
  }
  const make = 'umask 077; exec "$0" "$1/dist/test/release/bundle.js" "$2"'
  execFileSync('/usr/bin/env', ['-u', 'NODE_OPTIONS', 'sh', '-c', make, process.execPath, elsewhere, to], {
    cwd: '/',
    env
  })
  for (const { path } of made) t.ok(readFileSync(path).equals(readFileSync(join(to, basename(path)))), path)
})

t.test('the bundles have the manual pages of their commands, where npm finds them', async t => {
  for (const [bundle, own, foreign] of [
    [server, 'svc-serve.1', null],
    [clientOnly, 'svc-push.1', 'svc-serve.1']
  ] as const) {
    const { man } = JSON.parse(readFileSync(join(bundle, 'package.json'), 'utf8')) as { man: string[] }
    t.ok(man.includes('man/svc.1'))
    t.ok(man.includes(`man/${own}`))
    for (const path of man) t.match(readFileSync(join(bundle, path), 'utf8'), /^\.TH SVC/m, path)
    if (foreign !== null) t.notOk(man.includes(`man/${foreign}`))
  }
})

t.test('each bundle says beside its modules what they are', async t => {
  for (const bundle of [server, clientOnly])
    t.strictSame(JSON.parse(readFileSync(join(bundle, 'dist/lib/package.json'), 'utf8')), { type: 'module' })
})

t.test('each file that a module names is in its bundle', async t => {
  const named = /\b(?:from|import\(?) ?['"](\.[^'"]+)['"]|new URL\(['"](\.[^'"]+\.\w+)['"], import\.meta\.url\)/g
  for (const bundle of [server, clientOnly]) {
    const modules = readdirSync(join(bundle, 'dist'), { recursive: true, encoding: 'utf8' }).filter(path =>
      path.endsWith('.js')
    )
    t.ok(modules.length > 50)
    const missing = modules.flatMap(path =>
      [...readFileSync(join(bundle, 'dist', path), 'utf8').matchAll(named)]
        .map(([, from, file]) => join(bundle, 'dist', path, '..', (from ?? file) as string))
        // The table of commands names all; the client says of the others that they are not part of it.
        .filter(file => !existsSync(file) && !(bundle === clientOnly && file.includes('/cli/commands/')))
    )
    t.strictSame(missing, [], bundle)
  }
})

t.test('the bundles stay small, and their sums hold', async t => {
  t.ok(whole.bytes < 4 * 1024 * 1024, `svc: ${whole.bytes} bytes`)
  const [, promised] = /It is smaller than (\d+) KB/.exec(readFileSync('docs/ci.md', 'utf8')) ?? []
  t.ok(client.bytes < Number(promised) * 1000, `client: ${client.bytes} bytes`)
  for (const bundle of [server, clientOnly]) {
    execFileSync('sha256sum', ['--quiet', '--check', '--strict', 'SHA256SUMS'], { cwd: bundle })
  }
  execFileSync('sha256sum', ['--quiet', '--check', '--strict', 'SHA256SUMS'], { cwd: join(directory, 'made') })
})

t.test('nothing of the tests, the sources or this machine is in them', async t => {
  const paths = run('tar', 'tzf', whole.path)
    .trim()
    .split('\n')
    .concat(run('tar', 'tzf', client.path).trim().split('\n'))
  for (const path of paths) t.notMatch(path, /\.(ts|map)$|\/test\/|\.test\.js$/)
  const home = fileURLToPath(new URL('../../../', import.meta.url))
  t.throws(() => execFileSync('grep', ['-rlF', home, server, clientOnly]), 'no path of this machine')
})

t.test('the bill of materials names each package, and who needs it', async t => {
  const bill = JSON.parse(readFileSync(join(server, 'sbom.cdx.json'), 'utf8'))
  t.match(bill, { bomFormat: 'CycloneDX', specVersion: '1.5', serialNumber: /^urn:uuid:[0-9a-f-]{36}$/ })
  t.same(
    bill.components.map((each: { name: string }) => each.name).sort(),
    [...lockedPackages().keys()].filter(name => existsSync(join(server, 'node_modules', name))).sort()
  )
  for (const { hashes, purl } of bill.components)
    t.match(hashes[0], { alg: 'SHA-512', content: /^[0-9a-f]{128}$/ }, purl)
  t.same(bill.dependencies.find((each: { ref: string }) => each.ref.startsWith('pkg:npm/yauzl'))?.dependsOn, [
    'pkg:npm/pend@1.2.0'
  ])
  const beside = made.find(({ path }) => path.endsWith('.cdx.json'))?.path as string
  t.same(
    JSON.parse(readFileSync(beside, 'utf8'))
      .components.map((each: { name: string }) => each.name)
      .sort(),
    [...lockedPackages().keys()].sort()
  )
  const small = JSON.parse(readFileSync(join(clientOnly, 'sbom.cdx.json'), 'utf8'))
  t.same(
    small.components.map((each: { name: string }) => each.name),
    ['buffer-crc32', 'yazl']
  )
})

t.test('the client refuses commands of the server and lists its own', async t => {
  const help = run(process.execPath, join(clientOnly, 'bin/svc.js'), '--help')
  t.match(help, /^ {2}push /m)
  t.notMatch(help, /^ {2}serve /m)
  const refused = t.throws(() =>
    execFileSync(process.execPath, [join(clientOnly, 'bin/svc.js'), 'serve'], { stdio: 'pipe' })
  ) as unknown
  t.match(
    String((refused as { stderr?: Buffer } | false) && (refused as { stderr: Buffer }).stderr),
    /not part of the client package\. Install the full svc package/
  )
})

const nowhere = [
  '--registry',
  'http://127.0.0.1:9/',
  '--fetch-retries',
  '0',
  '--no-audit',
  '--no-fund',
  '--cache',
  join(directory, 'cache')
]

/** Returns what a server reports that is started by this path. */
async function served(t: Test, program: string) {
  const cwd = t.testdir({})
  const server = await startServed({
    command: ['/usr/bin/env', '-u', 'NODE_OPTIONS', program, 'serve', '--port', '0'],
    cwd,
    env: { PATH: process.env['PATH'] as string, HOME: cwd, SVC_HOME: join(cwd, 'home') }
  })
  try {
    const client = createClient(() => server.url, server.adminToken)
    const [health, terminal] = [await client.get('/api/health'), await client.get('/api/terminal/available')]
    const { paths } = (await client.get('/api/openapi.json')).body as { paths: object }
    const page = await (await fetch(server.url)).text()
    const modules = [...page.matchAll(/(?:href|src)="([^"]+\.js)"/g)].map(
      ([, address]) => new URL(address as string, server.url)
    )
    const missing = []
    for (const module of modules) if ((await fetch(module)).status !== 200) missing.push(module.pathname)
    return { health: health.body, terminal: terminal.body, routes: Object.keys(paths).length, modules, missing }
  } finally {
    await server.stop()
  }
}

t.test('npm installs the bundle without a registry', async t => {
  const prefix = join(directory, 'prefix')
  execFileSync('npm', ['install', '--global', '--prefix', prefix, ...nowhere, whole.path], { stdio: 'pipe' })
  t.match(run(join(prefix, 'bin/svc'), '--version'), /^\d+\.\d+\.\d+\n$/)
  t.ok(existsSync(join(prefix, 'lib/node_modules/svc/node_modules/sql.js/dist/sql-wasm.wasm')))
  const { health, terminal, routes, modules, missing } = await served(t, join(prefix, 'bin/svc'))
  t.ok(routes > 100, 'it describes its API')
  t.ok(modules.length > 10)
  t.strictSame(missing, [], 'the panel has its modules')
  t.match(health, { status: 'ok', version: /^\d+\.\d+\.\d+$/ })
  t.equal(terminal.available, noPty === false, terminal.reason)
})

const noPackage = existsSync(join(server, 'node_modules/node-pty')) ? false : 'node-pty is not installed here'

t.test(
  'where node-pty has no binary and nothing can compile it, the terminal is off and says why',
  { skip: noPackage },
  async t => {
    const bare = join(directory, 'uncompiled')
    const bundle = join(bare, basename(server))
    cpSync(server, bundle, { recursive: true })
    const package_ = join(bundle, 'node_modules/node-pty')
    rmSync(join(package_, 'build'), { recursive: true, force: true })
    cpSync(join(top, 'node_modules/node-pty/package.json'), join(package_, 'package.json'))
    const unpacked = await served(t, join(bundle, 'bin/svc.js'))
    t.match(unpacked, {
      health: { status: 'ok' },
      terminal: {
        available: false,
        reason: /compiled for this platform .*\. Run "npm run install" in node_modules\/node-pty/
      }
    })
    // The command reaches the compiler, which is a program here that only writes that it was called.
    const compiler = join(bare, 'compiler.cjs')
    writeFileSync(compiler, `require('fs').writeFileSync('compiled', process.argv.slice(2).join(' '))`)
    const env = { ...process.env, npm_config_node_gyp: compiler, npm_config_ignore_scripts: 'false' }
    execFileSync('npm', ['run', 'install'], { cwd: package_, stdio: 'pipe', env })
    t.equal(readFileSync(join(package_, 'compiled'), 'utf8'), 'rebuild')

    if (!isThorough) return t.comment('that npm says it, too, is part of make soak')
    // Node, npm and a shell: no compiler, no make, no Python.
    const archive = join(bare, 'svc.tgz')
    run('tar', 'czf', archive, '-C', bare, basename(server))
    const few = join(bare, 'bin')
    mkdirSync(few)
    for (const program of ['node', 'npm', 'sh', 'env'])
      symlinkSync(run('sh', '-c', `command -v ${program}`).trim(), join(few, program))
    const prefix = join(bare, 'prefix')
    const words = [
      '-u',
      'NODE_OPTIONS',
      'npm',
      'install',
      '--global',
      '--ignore-scripts=false',
      '--prefix',
      prefix,
      ...nowhere,
      archive
    ]
    execFileSync('/usr/bin/env', words, { stdio: 'pipe', env: { PATH: few, HOME: bare } })
    const installed = await served(t, join(prefix, 'bin/svc'))
    t.match(installed, {
      health: { status: 'ok' },
      terminal: { available: false, reason: /"npm (run install|install node-pty)"/ }
    })
  }
)

t.test(
  'without any network: served from the bundle, pushed and rolled back from a bare root by nobody',
  { skip: cannotIsolate() },
  async t => {
    const program = fileURLToPath(new URL('./offline.js', import.meta.url))
    const work = join(directory, 'work')
    mkdirSync(work)
    // A client's own copy: its root is mounted read-only.
    cpSync(clientOnly, join(directory, 'client'), { recursive: true })
    const seen = JSON.parse(
      run(
        '/usr/bin/env',
        '-u',
        'NODE_OPTIONS',
        'unshare',
        '--net',
        '--mount',
        process.execPath,
        program,
        server,
        join(directory, 'client'),
        work
      )
    )
    isComplete(t, seen.direct, ['offline'])
    t.ok(seen.direct.panel.includes('<script type="module"'))
    wasCarried(t, seen.carried, ['offline'])
    t.equal(seen.ended, 0)
    await t.test(
      'and the same behind nginx, under a prefix',
      { skip: seen.proxied === null && 'there is no nginx on this machine' },
      async t => {
        isComplete(t, seen.proxied, ['proxied', 'offline'])
        t.ok(seen.proxied.panel.includes('<base href="/tools/svc/">'))
        wasCarried(t, seen.carriedBehind, ['proxied', 'offline'])
      }
    )
  }
)

/** Backs up, restores elsewhere, and rolls back there to the second deployment. */
function wasCarried(t: Test, seen: any, projects: string[]): void {
  t.same(seen.projects, projects)
  t.equal(seen.status, 'success')
  t.equal(seen.now, 'two')
  t.match(seen.verified, { ok: true })
  t.equal(seen.ended, 0)
}

function isComplete(t: Test, seen: any, projects: string[]): void {
  t.match(seen.version, /^\d+\.\d+\.\d+$/, 'not "dev"')
  for (const pushed of seen.pushed) t.match(pushed, /success/i)
  t.equal(seen.second, 'two')
  t.match(seen.rolledBack, /success/i)
  t.equal(seen.now, 'one')
  t.match(
    JSON.parse(seen.listed),
    projects.map(name => ({ name }))
  )
  t.equal(seen.terminal.available, noPty === false)
}

t.test(
  'what the Dockerfile of the bundle says, done without Docker and without any network',
  { skip: cannotIsolate() },
  async t => {
    const program = fileURLToPath(new URL('./container.js', import.meta.url))
    const work = join(directory, 'container')
    mkdirSync(work)
    const seen = JSON.parse(
      run('/usr/bin/env', '-u', 'NODE_OPTIONS', 'unshare', '--net', '--mount', process.execPath, program, server, work)
    )
    t.match(
      { before: seen.before, during: seen.during, after: seen.after },
      { before: 1, during: 0, after: 1 },
      'the health check'
    )
    t.equal(seen.deployed, 'from a container')
    t.equal(seen.uid, '1000', 'nobody is root')
    t.match(seen.pushed, /"status":"success"/)
    t.match(seen.pushed, /there: yes/, 'scripts write into the volume')
    t.match(seen.pushed, /elsewhere: no/, 'and nowhere else')
    t.equal(seen.exitCode, 0, 'process 1 takes SIGTERM')
    t.ok(seen.isSocketGone)
    for (const line of seen.log) t.match(JSON.parse(line), { time: String, level: String, message: String })
    t.notMatch(seen.log.join('\n'), seen.adminToken)
    t.comment(`zombies of daemons under Node as process 1: ${seen.zombies}`)
  }
)
