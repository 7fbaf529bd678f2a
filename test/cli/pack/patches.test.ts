import t, { type Test } from 'tap'
import { randomBytes } from 'node:crypto'
import {
  appendFileSync,
  chmodSync,
  chownSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  utimesSync,
  writeFileSync
} from 'node:fs'
import { createServer, request, type ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sha256 } from '../../../lib/base/digests.js'
import { compareWithBase } from '../../../lib/base/shared/tree-delta.js'
import { makePatches } from '../../../lib/cli/pack/patches.js'
import { maxPatchBytes, maxSummedFiles } from '../../../lib/core/archive/patch.js'
import type { ZipSource } from '../../../lib/core/archive/source.js'
import { findIdentity, maySwitchUser } from '../../../lib/core/proc/identity.js'
import { leb, patched, sumsOf } from '../../support/patched.js'
import { startServe } from '../../support/serve-process.js'
import { svc } from '../../support/svc.js'
import { until } from '../../support/until.js'
import { snapshot } from '../../support/tree.js'
import { urlOf } from '../../support/on-loopback.js'

const { signal } = new AbortController()

/** A change of some files, and what is asked for it. */
function stageChange(t: Test, files: Record<string, [Buffer, Buffer | null]>) {
  const directory = t.testdir({})
  const sources: ZipSource[] = []
  const [base, entries] = [new Map<string, ReturnType<typeof entryOf>>(), [] as Array<ReturnType<typeof entryOf>>]
  const entryOf = (path: string, contents: Buffer) => {
    return { path, mode: 0o100644, size: contents.length, sha256: sha256(contents).toString('hex'), mtimeMs: 0 }
  }
  for (const [path, [before, after]] of Object.entries(files)) {
    base.set(path, entryOf(path, before))
    if (after === null) continue
    const source = join(directory, path)
    writeFileSync(source, after)
    entries.push(entryOf(path, after))
    sources.push({ path, kind: 'file', source, bytes: after.length, mode: 0o644, mtimeMs: 0 })
  }
  const asked: number[][] = []
  const earlier = Object.values(files).map(([before]) => before)
  const ask = async (lines: number[]): Promise<Buffer | null> => {
    asked.push(lines)
    return Buffer.concat(lines.map(line => sumsOf(earlier[line] as Buffer)))
  }
  const delta = compareWithBase(base, { entries })
  const make = (answer = ask) => makePatches({ delta, base, sources, ask: answer, signal })
  return { make, asked, sources, directory }
}

t.test('asks once, for the files where differences pay', async t => {
  const before = randomBytes(100_000)
  const after = Buffer.concat([before, Buffer.from('more')])
  const { make, asked } = stageChange(t, {
    a: [before, after],
    gone: [before, null],
    same: [before, before],
    small: [before.subarray(0, 1000), after.subarray(0, 1020)],
    'other.png': [randomBytes(50_000), randomBytes(50_000)],
    z: [before.subarray(0, 50_000), after]
  })
  const patches = await make()
  t.strictSame(asked, [[0, 4, 5]])
  t.match(patches, { name: '.svc-patches', bytes: 200_008, paths: new Set(['a', 'z']) }, 'not what is all other')
  const a = patched(before, patches?.contents.subarray(0, 12) as Buffer, after.length)
  t.ok(a.equals(after))
  t.ok((patches?.contents.length ?? 0) < 50_100)
})

t.test('does not ask if it does not pay', async t => {
  const little = stageChange(t, { a: [randomBytes(4000), randomBytes(4000)], b: [randomBytes(900), randomBytes(900)] })
  t.equal(await little.make(), null)
  const none = stageChange(t, { a: [randomBytes(90_000), null], link: [randomBytes(90_000), randomBytes(100)] })
  t.equal(await none.make(), null)
  t.strictSame([little.asked, none.asked], [[], []])
})

t.test('tries some of many files first', async t => {
  const before = Array.from({ length: 200 }, () => randomBytes(2000))
  const namesOf = (after: (contents: Buffer) => Buffer) =>
    Object.fromEntries(before.map((contents, at) => [`f${100 + at}`, [contents, after(contents)] as [Buffer, Buffer]]))
  const other = stageChange(
    t,
    namesOf(() => randomBytes(2000))
  )
  t.equal(await other.make(), null)
  t.strictSame(
    other.asked.map(lines => lines.length),
    [34],
    'no more are asked for if these have nothing in common with the base'
  )
  const longer = stageChange(
    t,
    namesOf(contents => Buffer.concat([contents, Buffer.from('more')]))
  )
  t.equal((await longer.make())?.paths.size, 200)
  t.strictSame(
    longer.asked.map(lines => lines.length),
    [34, 200]
  )
})

t.test('whole files are sent if there are no sums, or other ones than there must be', async t => {
  const { make, asked } = stageChange(t, { a: [randomBytes(90_000), randomBytes(90_000)] })
  for (const answer of [null, Buffer.alloc(10), Buffer.alloc(0)]) t.equal(await make(async () => answer), null)
  t.equal(await make(async lines => Buffer.alloc(sumsOf(Buffer.alloc(90_000)).length * lines.length)), null)
  t.equal(await make(), null, 'nothing is the same')
  t.equal(asked.length, 1)
})

t.test('the limits of a request are kept', async t => {
  const [before, after] = [Buffer.alloc(2048, 'a'), Buffer.alloc(2048, 'a').fill('b', 1024)]
  const many = Object.fromEntries(
    Array.from({ length: maxSummedFiles + 5 }, (_, at) => [`${at}`, [before, after] as [Buffer, Buffer]])
  )
  const { make, asked } = stageChange(t, many)
  await make()
  t.equal(asked.at(-1)?.length, maxSummedFiles)
  const large = randomBytes(maxPatchBytes / 2)
  const half = (): Buffer => Buffer.concat([large, randomBytes(maxPatchBytes / 2 - 1000)])
  const two = stageChange(t, { a: [large, half()], b: [large, half()], c: [large, half()] })
  const patches = await two.make()
  t.strictSame([...(patches?.paths ?? [])], ['a', 'b'], 'a third one is sent whole')
})

t.test('the name of the entry is one that the tree does not have', async t => {
  const before = randomBytes(50_000)
  const { make, sources } = stageChange(t, { a: [before, Buffer.concat([before, leb(1)])] })
  for (const path of ['.svc-patches', '.svc-patches-/x']) sources.push({ ...(sources[0] as ZipSource), path })
  t.equal((await make())?.name, '.svc-patches--')
})

t.test('a file that becomes shorter meanwhile is refused by its name', async t => {
  const { make, directory } = stageChange(t, { a: [randomBytes(90_000), randomBytes(90_000)] })
  truncateSync(join(directory, 'a'), 50_000)
  await t.rejects(make(), { code: 'file_changed', message: /"a"/ })
})

/** A project whose files are large enough that differences within them pay. */
async function stagePush(t: Test, cwd = t.testdir({ dist: {}, target: {} }), fields: object = {}) {
  const serve = await startServe(t, cwd)
  const project = await serve.createProject({ name: 'shop', deployPath: join(cwd, 'target'), ...fields })
  const config = { serverUrl: serve.url, projectId: project.id, outputDir: 'dist' }
  writeFileSync(join(cwd, 'svc.config.json'), JSON.stringify(config))
  const place = (name: string): string => join(cwd, 'dist', name)
  for (let n = 0; n < 8; n++) {
    writeFileSync(place(`${n}.bin`), randomBytes(100_000))
    utimesSync(place(`${n}.bin`), 1_700_000_000, 1_700_000_000)
  }
  const env = { SVC_HOME: join(cwd, 'client'), SVC_DEPLOY_TOKEN: project.token, CI: '' }
  const push = async (...words: string[]) => {
    const { code, stdout, stderr } = await svc(['push', ...words], { cwd, env })
    return { code, said: stdout + stderr }
  }
  const newest = async () => (await serve.deployments(project.id))[0]
  // What is held, or just recorded, has a staging directory.
  const files = (name: string) => snapshot(join(cwd, name)).filter(line => !line.startsWith('.svc-'))
  const isDeployed = () => t.strictSame(files('target'), files('dist'))
  const call = async (...words: string[]) => {
    const { code, stdout, stderr } = await svc(words, { cwd, env: { ...env, SVC_TOKEN: serve.adminToken } })
    return { code, said: stdout + stderr }
  }
  return { cwd, env, serve, project, place, push, call, newest, isDeployed }
}

t.test('a push sends differences within files, with and without an index', async t => {
  const { place, push, newest, isDeployed } = await stagePush(t)
  await push()
  for (const words of [[], ['--no-index'], ['--incremental', 'require']]) {
    const before = readFileSync(place('3.bin'))
    writeFileSync(place('3.bin'), Buffer.concat([before.subarray(0, 50_000), randomBytes(9), before.subarray(50_000)]))
    appendFileSync(place('5.bin'), 'more')
    writeFileSync(place('new.bin'), randomBytes(2000))
    const { code, said } = await push(...words)
    t.equal(code, 0)
    t.match(said, /Packed 3 files, .* \(2 as differences, \d other files from dep_/)
    t.match(said, /→ 3 of 9 files came \(2 as differences\), the others are those of dep_/)
    const sentBytes = (await newest())?.uploadedBytes ?? Infinity
    t.ok(sentBytes < 6000, `${sentBytes} bytes`)
    isDeployed()
  }
})

t.test('a release of which everything has changed a little is not sent whole', async t => {
  const { place, push, isDeployed } = await stagePush(t)
  await push()
  for (let n = 0; n < 8; n++) appendFileSync(place(`${n}.bin`), 'more')
  t.match(await push(), { code: 0, said: /Packed 8 files, 781 KB into \d+ B.* \(8 as differences, 0 other files/ })
  isDeployed()
})

const came = { code: 0, said: /→ 1 of 8 files came \(1 as difference/ }

t.test(
  'differences go into files of another user',
  { skip: !maySwitchUser() && 'only root changes users' },
  async t => {
    const cwd = mkdtempSync(join(tmpdir(), 'svc-patches-'))
    t.teardown(() => rmSync(cwd, { recursive: true, force: true }))
    chmodSync(cwd, 0o755)
    for (const name of ['dist', 'target']) mkdirSync(join(cwd, name))
    const { uid, gid } = await findIdentity('daemon')
    chownSync(join(cwd, 'target'), uid, gid)
    chmodSync(join(cwd, 'target'), 0o700)
    const { place, push, call, isDeployed } = await stagePush(t, cwd, { runAs: 'daemon' })
    await push()
    const first = snapshot(join(cwd, 'target'))
    appendFileSync(place('3.bin'), 'more')
    t.match(await push(), came)
    isDeployed()
    t.match(statSync(join(cwd, 'target/3.bin')), { uid, gid })
    t.match(await call('undo', 'shop', '--yes'), { code: 0 })
    t.strictSame(snapshot(join(cwd, 'target')), first)
  }
)

t.test('differences are held, reverted, confirmed and rolled back to like whole files', async t => {
  const { cwd, place, push, call, newest, isDeployed } = await stagePush(t)
  await push()
  const target = join(cwd, 'target')
  const first = snapshot(target)
  appendFileSync(place('3.bin'), 'more')
  /** Pushes what has to be confirmed, and answers it. */
  const held = async (answer: 'confirm' | 'revert') => {
    const pushing = push('--confirm', '10m')
    const { id } = await until(async () => (await newest())?.heldFor === 'confirm' && (await newest()))
    isDeployed()
    t.match(await call(answer, id), { code: 0 })
    return await pushing
  }
  t.match(await held('revert'), { ...came, code: 1 })
  t.strictSame(snapshot(target), first)
  t.match(await held('confirm'), { code: 0, said: /→ 0 of 8 files came/ }, 'the archive of what was reverted is kept')
  const second = await newest()
  isDeployed()
  appendFileSync(place('5.bin'), 'more')
  t.match(await push(), came)
  t.match(await call('rollback', 'shop', '--to', String(second?.id), '--yes'), { code: 0 })
  appendFileSync(place('5.bin'), 'and more')
  t.match(await push(), came)
  isDeployed()
})

t.test('differences are signed as the release that they make', async t => {
  const { cwd, env, serve, project, place, push, call, isDeployed } = await stagePush(t)
  await push()
  const keys = mkdtempSync(join(tmpdir(), 'svc-keys-'))
  t.teardown(() => rmSync(keys, { recursive: true }))
  const key = join(keys, 'ana')
  t.match(await call('keys', 'generate', key), { code: 0 })
  t.match(await call('keys', 'trust', `${key}.pub`, '--name', 'ana'), { code: 0 })
  await serve.changeProject(project.id, { policy: { signatures: { require: 'refuse' } } })
  appendFileSync(place('3.bin'), 'more')
  const before = snapshot(join(cwd, 'target'))
  t.match(await push(), { code: 1, said: /sign/ })
  t.strictSame(snapshot(join(cwd, 'target')), before)
  t.match(await push('--sign-key', key), came)
  isDeployed()
  t.match(await call('verify', 'shop'), { code: 0 })

  // A named token that may do nothing else.
  const { said } = await call('token', 'create', 'ci', '--role', 'deployer', '--project', 'shop', '--json')
  env.SVC_DEPLOY_TOKEN = JSON.parse(said).token
  appendFileSync(place('4.bin'), 'more')
  t.match(await push('--sign-key', key), came)
  isDeployed()
  await serve.createProject({ name: 'other', deployPath: join(cwd, 'other') })
  t.match(await push('--sign-key', key, '--project', 'other'), { code: 1 })
})

t.test('differences come in pieces after an attempt that was cut', async t => {
  const { serve, place, push, newest, isDeployed } = await stagePush(t)
  await push()
  const asked: string[] = []
  const proxy = createServer((near, answer): unknown => {
    const { method, headers } = near
    const what = `${method} ${near.url?.split('?')[0]}`
    if (near.url?.startsWith('/api/deploy/upload') && !asked.includes(what))
      return asked.push(what), near.socket.destroy()
    asked.push(what)
    return near.pipe(
      request(serve.url + near.url, { method, headers }, from =>
        from.pipe(answer.writeHead(from.statusCode ?? 0, from.headers))
      )
    )
  })
  for (let n = 0; n < 8; n++) appendFileSync(place(`${n}.bin`), randomBytes(4000))
  const { code, said } = await push('--server', await urlOf(t, proxy))
  t.match({ code, said }, { code: 0, said: /8 of 8 files came \(8 as differences\)/ })
  t.ok(
    asked.some(what => what.startsWith('PATCH /api/uploads/')),
    asked.join()
  )
  t.match(await newest(), { status: 'success', reusedFrom: /^dep_/ })
  isDeployed()
})

t.test('whatever happens to the sums, the right files are deployed', async t => {
  const { serve, place, push, newest, isDeployed } = await stagePush(t)
  await push()
  let spoil: ((body: Buffer, answer: ServerResponse) => void) | null = null
  let isOld = false
  const proxy = createServer(async (near, answer) => {
    const { method, headers } = near
    const far = request(serve.url + near.url, { method, headers }, async from => {
      const isWanted = near.url?.startsWith('/api/deploy/sums') || (isOld && near.url?.startsWith('/api/deploy/check'))
      if (!isWanted) {
        answer.writeHead(from.statusCode ?? 0, from.headers)
        return from.pipe(answer)
      }
      const body = Buffer.concat(await from.toArray())
      if (isOld) return answer.writeHead(200, json).end(body.toString().replace(',"patches"', ''))
      return spoil?.(body, answer)
    })
    near.pipe(far)
  })
  const server = ['--server', await urlOf(t, proxy)]
  const json = { 'content-type': 'application/json' }
  const cases: Record<string, [(body: Buffer, answer: ServerResponse) => void, RegExp]> = {
    'as they are': [(body, answer) => answer.end(body), /as differences/],
    'not found': [(_, answer) => answer.writeHead(404, json).end('{"code":"not_found","error":"x"}'), /Packed 1 file,/],
    'cut off': [(body, answer) => answer.end(body.subarray(1)), /Packed 1 file, .*in [\d.]+m?s \(7 other files/],
    // The server finds out that they make something else.
    'of other contents': [
      (body, answer) => {
        const sums = Buffer.from(body)
        // Two blocks have each other's sums.
        body.copy(sums, 0, 6, 12)
        body.copy(sums, 6, 0, 6)
        answer.end(sums)
      },
      /the differences that were sent do not make it. Push again. Sending all files[^]*Packed 8 files/
    ]
  }
  for (const [what, [change, said]] of Object.entries(cases)) {
    spoil = change
    appendFileSync(place('3.bin'), 'more')
    t.match(await push(...server), { code: 0, said }, what)
    isDeployed()
  }
  isOld = true
  appendFileSync(place('3.bin'), 'more')
  t.match(await push(...server), { code: 0, said: /Packed 1 file, .* \(7 other files/ }, 'an older server')
  isDeployed()
  isOld = false
  spoil = async (body, answer) => {
    rmSync(join(serve.home, 'deployments', `${(await newest())?.id}.zip`), { force: true })
    rmSync(join(serve.home, 'deployments', `${(await newest())?.id}.index`), { force: true })
    answer.end(body)
  }
  appendFileSync(place('3.bin'), 'more')
  const said = /as differences[^]*not kept any more. Send the whole archive. Sending all files[^]*Packed 8 files/
  t.match(await push(...server), { code: 0, said }, 'the release is removed between')
  isDeployed()
})
