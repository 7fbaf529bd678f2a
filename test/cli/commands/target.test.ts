import t, { type Test } from 'tap'
import { chmodSync, existsSync, mkdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Refusal } from '../../../lib/base/errors.js'
import { fetchFiles, type Fetching, sumLine } from '../../../lib/cli/commands/target.js'
import { stagingName } from '../../../lib/core/install/staging.js'
import type { DriftReport } from '../../../lib/model/plan.js'
import { startServe } from '../../support/serve-process.js'
import { svc } from '../../support/svc.js'
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { findProgram } from '../../support/programs.js'

/** A server with the project `shop`, and svc in a directory with these files, its configuration, and perhaps an admin token. */
async function shopIn(t: Test, names: readonly string[], { isAdmin }: { isAdmin: boolean }) {
  const cwd = t.testdir({})
  const server = await startServe(t, cwd)
  const target = join(cwd, 'www')
  const project = await server.createProject({ name: 'shop', deployPath: target })
  const site = join(cwd, 'shop')
  mkdirSync(site)
  for (const name of names) writeFileSync(join(site, name), name)
  writeFileSync(join(site, 'svc.config.json'), JSON.stringify({ projectId: project.id, serverUrl: server.url }))
  const env = { SVC_DEPLOY_TOKEN: project.token, ...(isAdmin && { SVC_TOKEN: server.adminToken }) }
  return { cwd, server, project, target, site, run: (...words: string[]) => svc(words, { cwd: site, env }) }
}

t.test('lists the files that were edited on the server', async t => {
  const { project, target, run } = await shopIn(t, ['a.txt', 'b.txt', 'c.txt'], { isAdmin: false })

  t.equal((await run('drift')).stdout, 'svc has put no files into the target.\n')
  t.equal((await run('push')).code, 0)
  const clean = await run('drift', '--exit-code')
  t.strictSame([clean.code, clean.stdout], [0, 'No file was edited on the server.\n'])

  writeFileSync(join(target, 'a.txt'), 'by hand')
  rmSync(join(target, 'b.txt'))
  const { code, stdout } = await run('drift')
  t.equal(code, 0)
  t.match(
    stdout,
    /^ {2}! a\.txt {2}edited on the server \d{4}-\d\d-\d\d \d\d:\d\d\n {2}! b\.txt {2}removed on the server\n2 files edited or removed/
  )
  t.equal((await run('drift', '--exit-code', '--full')).code, 4)
  t.match(JSON.parse((await run('drift', project.id, '--json')).stdout) as DriftReport, { count: 2, baseline: 'owned' })

  const plan = await run('plan', '--exit-code')
  t.equal(plan.code, 4)
  t.match(plan.stdout, /^ {2}! a\.txt {2}edited on the server .*, would be overwritten$/m)
  t.match(plan.stdout, /^ {2}! b\.txt {2}removed on the server, would be restored$/m)
  t.match((await run('push')).stdout, /replaced "a\.txt", which was edited on the server after deployment dep_/)

  rmSync(target, { recursive: true })
  writeFileSync(target, 'a file')
  const broken = await run('drift')
  t.strictSame([broken.code, broken.stdout.startsWith('The target cannot be compared: ')], [1, true])
})

t.test('svc files answers whether the files are as deployed, fetches edited ones and repairs', async t => {
  const { target, site, run } = await shopIn(t, ['a.txt', 'b.txt'], { isAdmin: true })
  t.match(await run('push'), { code: 0 })
  t.match(await run('files', '--exit-code'), { code: 0, stdout: 'No file was edited on the server.\n' })
  t.match(await run('files', '--deep'), { code: 0, stdout: '2 files are as deployed.\n' })

  writeFileSync(join(target, 'a.txt'), 'by hand')
  chmodSync(join(target, 'b.txt'), 0o600)
  t.match(await run('files', '--exit-code'), { code: 4, stdout: /a\.txt {2}edited on the server/ })
  t.match(await run('files', '--deep'), { code: 1, stdout: /b\.txt {2}other permissions/ })
  t.match((await run('files', '--deep', '--sums')).stdout, /^[0-9a-f]{64} {2}a\.txt$/m)
  t.match(await run('files', '--fetch', 'edited'), { code: 0 })
  t.equal(readFileSync(join(site, 'edited/a.txt'), 'utf8'), 'by hand')

  t.match(await run('files', '--repair'), { code: 1, stderr: /use --yes/ })
  t.match(await run('files', '--repair', '--path', 'a.txt', '--yes', '-m', 'by hand'), { code: 0 })
  t.equal(readFileSync(join(target, 'a.txt'), 'utf8'), 'a.txt')
  t.match(await run('rollback', '--undo', '--yes'), { code: 0, stdout: /the files are as after/ })
  t.match(await run('files', '--repair', '--yes'), { code: 0 })
  t.match(await run('files', '--deep'), { code: 0 })
})

t.test('puts back the files that are not as deployed', async t => {
  const names = ['a.txt', 'b.txt', 'c.txt']
  const { cwd, server, project, target, run } = await shopIn(t, names, { isAdmin: true })
  await server.changeProject(project.id, { postDeployScript: 'date >> ../ran' })
  const size = () => statSync(join(cwd, 'ran')).size
  t.equal((await run('push')).code, 0)
  const once = size()
  t.match(await run('repair', '--yes'), { code: 0, stdout: /^Nothing to repair: every file of "/ })

  const damage = () => {
    writeFileSync(join(target, 'a.txt'), 'by hand')
    for (const name of ['b.txt', 'c.txt']) rmSync(join(target, name), { force: true })
  }
  damage()
  t.match(await run('repair'), { code: 1, stderr: /use --yes/ })
  const some = await run('repair', project.id, '--path', 'b.txt', '--path', 'c.txt', '--yes')
  t.equal(some.code, 0, some.stderr)
  t.match(some.stdout, '→ puts back 2 files')
  t.equal(readFileSync(join(target, 'a.txt'), 'utf8'), 'by hand')
  t.equal(readFileSync(join(target, 'c.txt'), 'utf8'), 'c.txt')
  const rest = await run('repair', '--yes', '--json', '-m', 'after the incident')
  t.equal(rest.code, 0, rest.stderr)
  t.match(JSON.parse(rest.stdout), { status: 'success', projectId: project.id })
  t.equal(readFileSync(join(target, 'a.txt'), 'utf8'), 'a.txt')
  t.equal((await run('verify', project.id)).code, 0)
  t.equal(size(), once, 'no script ran')
  damage()
  t.equal((await run('repair', '--run-scripts', '--yes')).code, 0)
  t.ok(size() > once)

  const other = await run('repair', '--path', 'other.txt', '--yes')
  t.match(other, { code: 1, stderr: /"other\.txt" in "paths" is not a file that svc put there/ })
  const json = await run('repair', '--yes', '--json')
  t.match(JSON.parse(json.stdout), { status: 'nothing_to_repair' })
})

t.test('a target that is gone for good is given up, and one that is there is not', async t => {
  const cwd = t.testdir({})
  const target = join(cwd, 'site')
  const server = await startServe(t, cwd)
  const lost = 'dep_aaaaaaaaaaaaaaaa'
  const journal = join(cwd, 'server-home/deployments', `${lost}.undo`)
  const env = { SVC_SERVER_URL: server.url, SVC_TOKEN: server.adminToken }
  const forget = (...words: string[]) => svc(['target', 'forget', lost, ...words], { cwd, env })
  t.match(await forget('--yes'), { code: 1, stderr: /Unfinished target/ })
  mkdirSync(join(target, stagingName(lost)), { recursive: true })
  writeFileSync(journal, `svc-undo 4\ntarget ${target}\n`)
  t.match(await forget(), { code: 1, stderr: /use --yes/ })
  t.match(await forget('--yes'), { code: 1, stderr: /is there\. Restart the server/ })
  t.ok(existsSync(journal))
  rmSync(target, { recursive: true })
  t.match(await forget('--yes'), { code: 0, stdout: new RegExp(`Gave up .* of ${lost}`) })
  t.notOk(existsSync(journal))
  t.match(await server.api('GET', '/api/audit?limit=1'), { items: [{ action: 'deployment.give_up', target: lost }] })
})

const signal = new AbortController().signal

async function* bytes(text: string): AsyncGenerator<Buffer> {
  yield Buffer.from(text)
}

const open: Fetching['open'] = async path => bytes(`contents of ${path}`)

t.test('keeps the paths, and replaces nothing', async t => {
  const directory = join(t.testdir({ fetched: { 'old.js': 'mine' } }), 'fetched')
  const left = await fetchFiles({ directory, paths: ['a.js', 'old.js', 'sub/deep/b.js', 'sub/c.js'], open, signal })
  t.strictSame(left, [{ path: 'old.js', reason: 'It exists already' }])
  t.equal(readFileSync(join(directory, 'old.js'), 'utf8'), 'mine')
  for (const path of ['a.js', 'sub/deep/b.js', 'sub/c.js'])
    t.equal(readFileSync(join(directory, path), 'utf8'), `contents of ${path}`)
})

t.test('never leaves the directory', async t => {
  const top = t.testdir({ fetched: {}, outside: {} })
  const directory = join(top, 'fetched')
  symlinkSync('../outside', join(directory, 'link'))
  symlinkSync('../outside/new', join(directory, 'dangling'))
  writeFileSync(join(directory, 'file'), '')
  const paths = ['../x', '/etc/x', 'a/../../x', 'a//b', './a', '', 'link/x', 'dangling', 'file/x', 'a\0b']
  const left = await fetchFiles({ directory, paths, open, signal })
  t.strictSame(
    left.map(({ path }) => path),
    paths
  )
  t.notOk(existsSync(join(top, 'x')))
  t.notOk(existsSync(join(top, 'outside/x')))
  t.notOk(existsSync(join(top, 'outside/new')))
})

t.test('a file that does not arrive is not left in part', async t => {
  const directory = t.testdir({ sub: {} })
  mkdirSync(join(directory, 'full'))
  async function* broken(): AsyncGenerator<Buffer> {
    yield Buffer.from('half')
    throw Object.assign(new Error('reset'), { code: 'ECONNRESET' })
  }
  const answers: Record<string, () => Promise<AsyncIterable<Buffer>>> = {
    refused: () => Promise.reject(new Refusal('forbidden', 'denied_path', 'It may contain passwords')),
    half: async () => broken(),
    whole: async () => bytes('x')
  }
  const remote: Fetching['open'] = path => (answers[path] as () => Promise<AsyncIterable<Buffer>>)()
  const paths = ['refused', 'half', 'full', 'whole']
  const left = await fetchFiles({ directory, paths, open: remote, signal })
  t.match(left, [
    { path: 'refused', reason: 'It may contain passwords' },
    { path: 'half' },
    { path: 'full', reason: 'It exists already' }
  ])
  t.notOk(existsSync(join(directory, 'half')))
  t.notOk(existsSync(join(directory, 'refused')))
  t.equal(readFileSync(join(directory, 'whole'), 'utf8'), 'x')
  const bug: Fetching['open'] = () => Promise.reject(new TypeError('a bug'))
  await t.rejects(fetchFiles({ directory, paths: ['other'], open: bug, signal }), { message: 'a bug' })
  const stopped = AbortSignal.abort(new Error('stop'))
  await t.rejects(fetchFiles({ directory, paths: ['refused'], open: remote, signal: stopped }), { message: 'stop' })
})

const names = [
  'plain',
  'sub/with space',
  ' leading',
  'back\\slash',
  'line\nbreak',
  'both\\\n',
  '-',
  '--check',
  '*star',
  'ü'
]

t.test('sha256sum accepts the lines', { skip: findProgram('sha256sum') === null && 'no sha256sum' }, async t => {
  const directory = t.testdir()
  mkdirSync(join(directory, 'sub'))
  const lines = names.map(name => {
    writeFileSync(join(directory, name), name)
    return sumLine(createHash('sha256').update(name).digest('hex'), name)
  })
  const check = () => spawnSync('sha256sum', ['-c', '--strict'], { cwd: directory, input: lines.join('') })
  const { status, stdout, stderr } = check()
  t.equal(status, 0, `${stdout} ${stderr}`)
  t.equal(String(stdout).match(/: OK$/gm)?.length, names.length)
  writeFileSync(join(directory, 'line\nbreak'), 'edited')
  t.equal(check().status, 1)
})

t.test('escapes as coreutils do', async t => {
  t.equal(sumLine('ab', 'a b'), 'ab  a b\n')
  t.equal(sumLine('ab', 'a\\b\nc'), '\\ab  a\\\\b\\nc\n')
  t.equal(sumLine('ab', '-'), 'ab  ./-\n')
})
