import t, { type Test } from 'tap'
import {
  appendFileSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  truncateSync,
  utimesSync,
  writeFileSync
} from 'node:fs'
import { randomBytes } from 'node:crypto'
import { createServer, request, type ServerResponse } from 'node:http'
import { join } from 'node:path'
import { Refusal } from '../../../lib/base/errors.js'
import { incrementalMode, isRefusedChange, sendingNote } from '../../../lib/cli/pack/changes.js'
import { startServe } from '../../support/serve-process.js'
import { svc } from '../../support/svc.js'
import { snapshot } from '../../support/tree.js'
import { urlOf } from '../../support/on-loopback.js'

/** A project whose build is large enough that changes pay. */
async function stagePush(t: Test, more: object = {}) {
  const cwd = t.testdir({ dist: { sub: {} }, target: {} })
  const serve = await startServe(t, cwd)
  const project = await serve.createProject({ name: 'shop', deployPath: join(cwd, 'target'), ...more })
  writeFileSync(
    join(cwd, 'svc.config.json'),
    JSON.stringify({ serverUrl: serve.url, projectId: project.id, outputDir: 'dist' })
  )
  const place = (name: string): string => join(cwd, 'dist', name)
  const past = (name: string): void => utimesSync(place(name), 1_700_000_000, 1_700_000_000)
  for (let i = 0; i < 30; i++) {
    writeFileSync(place(`sub/${i}.txt`), `${i}`.repeat(20_000))
    past(`sub/${i}.txt`)
  }
  const env = { SVC_HOME: join(cwd, 'client'), SVC_DEPLOY_TOKEN: project.token, CI: '' }
  const push = async (...words: string[]) => {
    const { code, stdout, stderr } = await svc(['push', ...words], { cwd, env })
    return { code, said: stdout + stderr }
  }
  const newest = async () => (await serve.deployments(project.id))[0]
  return { cwd, serve, project, place, push, newest, env }
}

t.test('a second push sends what has changed, and the server keeps a whole release', async t => {
  const { cwd, place, push, newest } = await stagePush(t)
  t.match(await push(), { code: 0, said: /Packed 30 files.*\(all files: the server keeps no earlier release\)/ })
  const first = await newest()
  appendFileSync(place('sub/3.txt'), 'more')
  renameSync(place('sub/4.txt'), place('moved.txt'))
  mkdirSync(place('empty'))
  t.match(await push(), { code: 0, said: new RegExp(`Packed 1 file.*\\(29 other files from ${first?.id}\\)`) })
  const second = await newest()
  t.match(second, { reusedFrom: first?.id, fileCount: 30 })
  t.ok((second?.uploadedBytes ?? Infinity) < (second?.archiveBytes ?? 0) / 10)
  t.strictSame(
    snapshot(join(cwd, 'target')).filter(line => !line.startsWith('sub/4.txt')),
    snapshot(join(cwd, 'dist'))
  )
})

t.test('new times alone send nothing: contents decide', async t => {
  const { cwd, place, push } = await stagePush(t)
  await push()
  for (const name of readdirSync(place('sub'))) utimesSync(join(place('sub'), name), new Date(), new Date())
  t.match(await push(), { code: 0, said: /Packed 0 files.*30 other files/ })
  t.strictSame(snapshot(join(cwd, 'target')), snapshot(join(cwd, 'dist')))
  rmSync(join(cwd, 'client/index'), { recursive: true })
  t.match(await push(), { code: 0, said: /Packed 0 files/ }, 'without an index, the server says what it has')
  t.match(await push('--no-index'), { code: 0, said: /Packed 0 files/ })
})

t.test('what is not kept any more is sent', async t => {
  const { cwd, serve, place, push, newest } = await stagePush(t)
  await push()
  rmSync(join(serve.home, 'deployments', `${(await newest())?.id}.zip`))
  appendFileSync(place('sub/3.txt'), 'more')
  const { code, said } = await push()
  t.equal(code, 0)
  t.match(said, /not kept any more.*Sending all files/)
  t.match(said, /Packed 30 files/)
  t.strictSame(snapshot(join(cwd, 'target')), snapshot(join(cwd, 'dist')))
  t.equal((await newest())?.reusedFrom, null)
})

t.test('without an index, too', async t => {
  const { serve, place, push, newest } = await stagePush(t)
  await push()
  const archive = join(serve.home, 'deployments', `${(await newest())?.id}.zip`)
  for (const damage of [() => truncateSync(archive, 99), () => rmSync(archive)]) {
    damage()
    appendFileSync(place('sub/3.txt'), 'more')
    t.match(await push('--no-index', '--incremental', 'require'), { code: 1, said: /cannot read the earlier release/ })
  }
  const said = /Packed 30 files.*all files: the server cannot read the earlier release/
  t.match(await push('--no-index'), { code: 0, said })
  t.match(await push('--no-index'), { code: 0, said: /Packed 0 files/ })
})

t.test('the question what the server has is repeated while its answer does not arrive', async t => {
  const { serve, place, push } = await stagePush(t)
  await push()
  const losses: Record<string, (response: ServerResponse) => void> = {
    'it is not answered': response => response.destroy(),
    'a proxy cannot reach svc': response => response.writeHead(503, { 'content-type': 'text/html' }).end('<h1>No</h1>'),
    'the answer is cut off': response => {
      response.writeHead(200, { 'content-length': 1000 }).write('svc-tree')
      setTimeout(() => response.destroy(), 20)
    }
  }
  let lose: ((response: ServerResponse) => void) | null = null
  let left = 0
  const proxy = createServer((near, answer) => {
    if (near.url?.startsWith('/api/deploy/base') && left-- > 0) return lose?.(answer)
    const { method, headers } = near
    const far = request(serve.url + near.url, { method, headers }, from => {
      answer.writeHead(from.statusCode ?? 0, from.headers)
      from.pipe(answer)
    })
    near.pipe(far)
  })
  const server = await urlOf(t, proxy)
  for (const [what, each] of Object.entries(losses)) {
    lose = each
    left = 1
    appendFileSync(place('sub/3.txt'), 'more')
    const said = /Trying again in[^]*Packed 1 file,/
    t.match(await push('--no-index', '--server', server), { code: 0, said }, what)
  }
  left = 9
  t.match(await push('--no-index', '--server', server), { code: 1, said: /error: The list of the files.*was cut off/ })
})

t.test('a release of somebody else is a base, too', async t => {
  const { cwd, place, push, env } = await stagePush(t)
  await push()
  env.SVC_HOME = join(cwd, 'other-client')
  appendFileSync(place('sub/5.txt'), 'of another machine')
  t.match(await push(), { code: 0, said: /Packed 1 file,/ })
  env.SVC_HOME = join(cwd, 'client')
  appendFileSync(place('sub/6.txt'), 'mine')
  t.match(await push(), { code: 0, said: /Packed 1 file,|Packed 2 files,/ })
  t.strictSame(snapshot(join(cwd, 'target')), snapshot(join(cwd, 'dist')))
})

t.test('the whole archive is sent if most of it has changed, if it is small, and if the user says so', async t => {
  const { place, push, newest } = await stagePush(t)
  t.match(await push('--incremental', 'require'), { code: 1, said: /Nothing was sent.*keeps no earlier release/ })
  await push()
  t.match(await push('--incremental', 'never'), { code: 0, said: /Packed 30 files/ })
  t.equal((await newest())?.reusedFrom, null)
  for (let i = 0; i < 25; i++) writeFileSync(place(`sub/${i}.txt`), randomBytes(40_000))
  t.match(await push(), { code: 0, said: /Packed 30 files.*\(all files: most of it has changed\)/ })
  for (let i = 1; i < 30; i++) rmSync(place(`sub/${i}.txt`))
  t.match(await push(), { code: 0, said: /Packed 1 file.* in [\d.]+m?s\n/ }, 'a small archive is as fast')
  t.match(await push('--incremental', 'require'), { code: 0, said: /Packed 0 files.*1 other file / })
  t.match(await push('--incremental', 'sometimes'), { code: 2, said: /--incremental/ })
})

t.test('a release that has become too large for the server is refused once', async t => {
  const { serve, place, push } = await stagePush(t)
  writeFileSync(place('large.bin'), randomBytes(1_500_000))
  await push()
  await serve.api('PUT', '/api/settings', { max_upload_size: '1' })
  appendFileSync(place('sub/3.txt'), 'more')
  const { code, said } = await push()
  t.match({ code, said }, { code: 1, said: /raise the setting max_upload_size/ })
  t.notMatch(said, /in pieces|Trying again/)
})

t.test('only what a whole archive cures is tried again', t => {
  const refusal = (code: string) => new Refusal('conflict', code, 'x')
  t.equal(isRefusedChange(refusal('base_gone')), true)
  t.equal(isRefusedChange(refusal('assembly_differs')), true)
  t.equal(isRefusedChange(refusal('locked')), false)
  t.equal(isRefusedChange(new Error('base_gone')), false)
  t.equal(incrementalMode(undefined), 'auto')
  t.equal(sendingNote({ changes: null, whole: null, tree: null, found: {} as never }), '')
  t.end()
})
