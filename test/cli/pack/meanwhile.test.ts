/* What others do between the steps of a push of changes, and what has happened to the server or its target since the last one. */
import {
  appendFileSync,
  cpSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync
} from 'node:fs'
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { createServer, request as httpRequest } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { sha256 } from '../../../lib/base/digests.js'
import { startServe, startServeProcess } from '../../support/serve-process.js'
import { svc } from '../../support/svc.js'
import { snapshot } from '../../support/tree.js'

const count = 40

/** A way to a server on which something happens before a request passes. */
async function startTurnstile(t: Test, to: () => string) {
  const turnstile = { url: '', before: async (_path: string): Promise<void> => {} }
  const listener = createServer(async (near, answer) => {
    await turnstile.before((near.url ?? '').split('?')[0] ?? '')
    const { method, headers, url } = near
    const far = httpRequest(new URL(url ?? '', to()), { method, headers, agent: false }, reply => {
      answer.writeHead(reply.statusCode ?? 500, reply.headers)
      reply.pipe(answer)
    })
    far.on('error', () => answer.destroy())
    near.pipe(far)
  })
  listener.listen(0, '127.0.0.1')
  await once(listener, 'listening')
  t.teardown(() => void listener.close().closeAllConnections())
  turnstile.url = `http://127.0.0.1:${(listener.address() as AddressInfo).port}`
  return turnstile
}

/** A project that was pushed, with a second machine that pushes the same files. */
async function stage(t: Test, start: typeof startServe | typeof startServeProcess = startServe) {
  const cwd = t.testdir({ target: {} })
  let server = await start(t, cwd)
  const turnstile = await startTurnstile(t, () => server.url)
  const project = await server.createProject({ name: 'shop', deployPath: join(cwd, 'target') })
  await server.changeProject(project.id, { policy: { prune: 'managed' } })
  const machine = (name: string) => {
    const site = join(cwd, name)
    mkdirSync(site)
    for (let at = 0; at < count; at++) writeFileSync(join(site, `${at}.txt`), `${at} `.repeat(5000))
    const config = { serverUrl: turnstile.url, projectId: project.id, outputDir: '.' }
    writeFileSync(join(site, 'svc.config.json'), JSON.stringify(config))
    const env = { SVC_HOME: join(cwd, `${name}-home`), SVC_DEPLOY_TOKEN: project.token, CI: '' }
    return {
      site,
      place: (file: string): string => join(site, file),
      push: (...words: string[]) => svc(['push', ...words], { cwd: site, env })
    }
  }
  const one = machine('one')
  t.match(await one.push(), { code: 0 })
  return {
    cwd,
    server: () => server,
    async restart() {
      server = await start(t, cwd)
    },
    project,
    turnstile,
    one,
    machine,
    newest: async () => (await server.deployments(project.id))[0],
    contents: (): string[] => contentsOf(join(cwd, 'target'))
  }
}

/** The files of a directory without their times: what is not sent keeps the time that it had. */
function contentsOf(directory: string): string[] {
  return readdirSync(directory)
    .filter(name => name !== 'svc.config.json')
    .sort()
    .map(name => `${name} ${sha256(readFileSync(join(directory, name))).toString('hex')}`)
}

t.test('a file that changes after it was hashed is deployed as it is now, or named', async t => {
  const { one, turnstile, newest, contents } = await stage(t)
  appendFileSync(one.place('3.txt'), 'first')
  let change = (): void => writeFileSync(one.place('3.txt'), readFileSync(one.place('3.txt'), 'utf8').replace('f', 'F'))
  // Between hashing and packing.
  turnstile.before = async path => void (path === '/api/deploy/base' && change())
  const first = await one.push('--no-index')
  t.match(first, { code: 0, stderr: /"3\.txt": it changed after it was compared.*Sending all files/ })
  t.match(await newest(), { status: 'success', reusedFrom: null })
  t.strictSame(contents(), contentsOf(one.site))
  const before = contents()
  appendFileSync(one.place('3.txt'), 'second')
  change = () => appendFileSync(one.place('3.txt'), 'longer')
  t.match(await one.push('--no-index'), { code: 1, stderr: /Cannot pack "3\.txt": it changed while it was packed/ })
  t.strictSame(contents(), before)
  turnstile.before = async () => {}
  t.match(await one.push(), { code: 0 }, 'and the index does not remember what was hashed')
  t.strictSame(contents(), contentsOf(one.site))
})

t.test('a file that never rests ends a push, or is deployed as a whole', async t => {
  const { one, contents, newest } = await stage(t)
  let turn = 0
  const writing = setInterval(() => writeFileSync(one.place('5.txt'), `${turn++ % 2} `.repeat(40_000)), 3)
  t.teardown(() => clearInterval(writing))
  for (let round = 0; round < 5; round++) {
    const { code, stdout, stderr } = await one.push()
    if (code !== 0) t.match(stdout + stderr, /5\.txt/, 'it is named')
    else t.match(await newest(), { status: 'success' })
  }
  clearInterval(writing)
  t.match(await one.push(), { code: 0 })
  t.strictSame(contents(), contentsOf(one.site))
})

t.test('a base that is pruned between the question and the upload', async t => {
  const { one, turnstile, newest, contents, server, project } = await stage(t)
  appendFileSync(one.place('1.txt'), 'second')
  t.match(await one.push(), { code: 0 })
  const base = await newest()
  appendFileSync(one.place('2.txt'), 'third')
  turnstile.before = async path => {
    if (path !== '/api/deploy/upload' || (await newest())?.id !== base?.id) return
    // What is live is not deleted: another one takes its place.
    await server().api('POST', `/api/projects/${project.id}/undo`)
    await server().api('DELETE', `/api/deployments/${base?.id}/archive?force=1`)
  }
  const { code, stdout, stderr } = await one.push()
  t.equal(code, 0, stdout + stderr)
  t.match(stdout + stderr, /not kept any more.*Sending all files/)
  t.strictSame(contents(), contentsOf(one.site))
})

t.test('two machines push at once', async t => {
  const { one, machine, turnstile, contents, server, project } = await stage(t)
  const other = machine('other')
  appendFileSync(one.place('1.txt'), 'of one')
  appendFileSync(other.place('2.txt'), 'of the other')
  let isDone = false
  turnstile.before = async path => {
    if (path !== '/api/deploy/upload' || isDone) return
    isDone = true
    t.match(await other.push(), { code: 0 }, 'between the steps of the first')
  }
  t.match(await one.push(), { code: 0 })
  t.strictSame(contents(), contentsOf(one.site), 'the later upload has won, and is nothing of the other')
  turnstile.before = async () => {}
  for (let round = 0; round < 4; round++) {
    appendFileSync(one.place(`${round}.txt`), `one ${round}`)
    appendFileSync(other.place(`${round + 5}.txt`), `other ${round}`)
    const ends = await Promise.all([one.push(), other.push()])
    t.match(ends, [{ code: 0 }, { code: 0 }])
    const found = contents().join('\n')
    const [mine, others] = [one, other].map(({ site }) => contentsOf(site).join('\n'))
    t.ok(found === mine || found === others, `round ${round}: one of both, and no mixture`)
  }
  const rows = await server().deployments(project.id)
  t.strictSame([rows.length, new Set(rows.map(({ status }) => status))], [11, new Set(['success'])])
})

t.test('a target that was restored from a snapshot is put right', async t => {
  const { cwd, one, contents, newest } = await stage(t)
  const [target, copy] = [join(cwd, 'target'), join(cwd, 'snapshot')]
  appendFileSync(one.place('1.txt'), 'second')
  t.match(await one.push(), { code: 0 })
  // An older state, with the times that its files had, on other inodes.
  execFileSync('cp', ['-a', target, copy])
  appendFileSync(one.place('2.txt'), 'third')
  t.match(await one.push(), { code: 0 })
  const { atime, mtime } = statSync(join(copy, '7.txt'))
  const text = readFileSync(join(copy, '7.txt'), 'utf8')
  writeFileSync(join(copy, '7.txt'), text.replace('7', '8'))
  utimesSync(join(copy, '7.txt'), atime, mtime)
  rmSync(target, { recursive: true })
  renameSync(copy, target)
  appendFileSync(one.place('3.txt'), 'fourth')
  t.match(await one.push(), { code: 0 })
  t.match((await newest())?.reusedFrom, /^dep_/)
  t.strictSame(contents(), contentsOf(one.site))
})

t.test('a server that was restored from an older backup knows less than the client', async t => {
  const { cwd, one, contents, newest, restart, server } = await stage(t, startServeProcess)
  const env = { SVC_HOME: server().home }
  t.match(await svc(['backup', 'backup.zip'], { cwd, env }), { code: 0 })
  for (const name of ['1.txt', '2.txt']) {
    appendFileSync(one.place(name), 'after the backup')
    t.match(await one.push(), { code: 0 })
  }
  await server().stop()
  t.match(await svc(['restore', 'backup.zip', '--force'], { cwd, env }), { code: 0 })
  await restart()
  appendFileSync(one.place('3.txt'), 'after the restore')
  const { code, stdout, stderr } = await one.push()
  t.equal(code, 0, stdout + stderr)
  t.match(stdout + stderr, /Packed 3 files.*37 other files/)
  t.match(await newest(), { status: 'success', reusedFrom: /^dep_/ })
  t.strictSame(contents(), contentsOf(one.site))
})

t.test('a copy of the whole checkout on another machine has an index that knows nothing of it', async t => {
  const { cwd, one, machine, contents } = await stage(t)
  const other = machine('copied')
  cpSync(join(cwd, 'one-home'), join(cwd, 'copied-home'), { recursive: true })
  // Same names, sizes and times; other contents and inodes.
  const { atime, mtime } = statSync(one.place('4.txt'))
  writeFileSync(other.place('4.txt'), '5 '.repeat(5000))
  utimesSync(other.place('4.txt'), atime, mtime)
  t.match(await other.push(), { code: 0 })
  t.strictSame(contents(), contentsOf(other.site))
  t.notSame(snapshot(other.site), snapshot(one.site))
})
