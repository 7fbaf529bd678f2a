/* Targets that were separate when their projects were created. A link has since made them equal or nested. */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import type { Project } from '../../lib/model/project.js'
import { formOf } from '../support/client.js'
import { startServer, type Stage } from '../support/server.js'
import { openStream, type LiveStream } from '../support/sse.js'
import { zipOf } from '../support/zip.js'
import { repetitions } from '../support/thorough.js'
import { until } from '../support/until.js'

/** A script that reports its start, and continues when `sites/go` is opened. */
const untilReleased = 'mkfifo ../go; echo is here; cat ../go'

interface Watched {
  id: string
  stream: LiveStream
}

async function push(stage: Stage, project: Project, files: Record<string, string>, postDeploy = ''): Promise<Watched> {
  const { contentType, body } = formOf([
    ['projectId', project.id],
    ['postDeploy', postDeploy],
    ['file', { filename: 'a.zip', bytes: await zipOf(files) }]
  ])
  const reply = await stage
    .as(project.token)
    .open('POST', '/api/deploy/upload', { headers: { 'content-type': contentType }, body })
  reply.resume()
  if (reply.statusCode !== 200) throw new Error(`The upload was refused: ${reply.statusCode}`)
  const id = reply.headers['x-svc-deploy-id'] as string
  return { id, stream: await openStream(stage.client, `/api/logs/${id}/stream?timestamps=1`) }
}

const line =
  (pattern: RegExp) =>
  ({ event, data }: { event: string; data: any }) =>
    event === 'log' && pattern.test(data.data)

/** Many files, several times, on a machine that does other work. */
const statusWithinMs = 300_000

async function statusOf({ stream }: Watched): Promise<string> {
  return (await stream.next('status', statusWithinMs)).data.status
}

async function release(path: string): Promise<void> {
  await (await open(path, 'w')).close()
}

/** Replaces `sites/b` by a link to a directory in `sites/a`. */
function leadInto(stage: Stage, place: string): void {
  rmSync(join(stage.sites, 'b'), { recursive: true, force: true })
  mkdirSync(join(stage.sites, place), { recursive: true })
  symlinkSync(join(stage.sites, place), join(stage.sites, 'b'))
}

for (const place of ['a', 'a/deep/inside']) {
  t.test(`a deployment waits for one of another project in the same files: ${place}`, async t => {
    const stage = await startServer(t)
    const a = await stage.createProject('a')
    const b = await stage.createProject('b')
    leadInto(stage, place)
    const fromA = await push(stage, a, { 'who.txt': 'a', 'deep/inside/who.txt': 'a' }, untilReleased)
    await fromA.stream.next(line(/^is here$/))
    const fromB = await push(stage, b, { 'who.txt': 'b' })
    const waiting = await fromB.stream.next(line(/waiting for/))
    t.equal(waiting.data.data, `→ waiting for deployment ${fromA.id}, which uses the same directory: ${stage.sites}/a`)
    t.equal(readFileSync(join(stage.sites, place, 'who.txt'), 'utf8'), 'a')
    t.equal((await stage.client.get(`/api/logs/${fromB.id}`)).body.status, 'running')
    await release(join(stage.sites, 'go'))
    t.equal(await statusOf(fromA), 'success')
    t.equal(await statusOf(fromB), 'success')
    t.equal(readFileSync(join(stage.sites, place, 'who.txt'), 'utf8'), 'b')
  })
}

t.test('two deployments with many files in the same target never undo each other', async t => {
  const stage = await startServer(t)
  const [a, b] = [await stage.createProject('a'), await stage.createProject('b')]
  leadInto(stage, 'a')
  const count = repetitions(800, 3000)
  const files = (of: string) => Object.fromEntries(Array.from({ length: count }, (_, i) => [`d${i % 10}/f${i}`, of]))
  const zips = { a: files('a'), b: files('b') }
  const runs = await Promise.all([
    push(stage, a, zips.a),
    push(stage, b, zips.b),
    push(stage, a, zips.a),
    push(stage, b, zips.b)
  ])
  t.same(await Promise.all(runs.map(statusOf)), ['success', 'success', 'success', 'success'])
  // What the last one has replaced is removed after its record.
  await until(() => !readdirSync(join(stage.sites, 'a')).some(name => name.startsWith('.svc-')))
  const names = readdirSync(join(stage.sites, 'a'), { recursive: true, withFileTypes: true }).filter(each =>
    each.isFile()
  )
  const contents = new Set(names.map(each => readFileSync(join(each.parentPath, each.name), 'utf8')))
  t.equal(names.length, count)
  t.equal(contents.size, 1, 'all files are of one deployment')
})

t.test('follows a link that the pre-deploy script changed, and waits for the other project', async t => {
  const stage = await startServer(t)
  const [a, b] = [
    await stage.createProject('a'),
    await stage.createProject('b', { preDeployScript: 'ln -sfn "$PWD/../a" ../b' })
  ]
  mkdirSync(join(stage.sites, 'other'))
  rmSync(join(stage.sites, 'b'), { recursive: true, force: true })
  symlinkSync(join(stage.sites, 'other'), join(stage.sites, 'b'))
  const fromA = await push(stage, a, { 'who.txt': 'a' }, untilReleased)
  await fromA.stream.next(line(/^is here$/))
  const fromB = await push(stage, b, { 'who.txt': 'b' })
  await fromB.stream.next(line(/waiting for/))
  await release(join(stage.sites, 'go'))
  t.same([await statusOf(fromA), await statusOf(fromB)], ['success', 'success'])
  t.equal(readFileSync(join(stage.sites, 'a/who.txt'), 'utf8'), 'b')
  t.notOk(existsSync(join(stage.sites, 'other/who.txt')))
})

t.test('a queued deployment can be cancelled, and delays no other', async t => {
  const stage = await startServer(t)
  const [a, b] = [await stage.createProject('a'), await stage.createProject('b')]
  leadInto(stage, 'a')
  const fromA = await push(stage, a, { 'who.txt': 'a' }, untilReleased)
  await fromA.stream.next(line(/^is here$/))
  const fromB = await push(stage, b, { 'who.txt': 'b' })
  await fromB.stream.next(line(/waiting for/))
  t.equal((await stage.client.post(`/api/deployments/${fromB.id}/cancel`)).status, 200)
  t.equal(await statusOf(fromB), 'failed')
  await release(join(stage.sites, 'go'))
  t.equal(await statusOf(fromA), 'success')
  const again = await push(stage, b, { 'who.txt': 'b' })
  t.equal(await statusOf(again), 'success')
})
