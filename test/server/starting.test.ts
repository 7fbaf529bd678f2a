/* A server that was killed in the middle of an extraction, and the next one, which puts the target back. */
import t from 'tap'
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { filesAt, runExtraction } from '../../lib/core/install/unpack/extraction.js'
import { type RunningServer, serve } from '../../lib/server/serve.js'
import type { Project } from '../../lib/model/project.js'
import { disk as realDisk, type Disk } from '../../lib/core/install/disk.js'
import { createClient } from '../support/client.js'
import { adminToken, startServer, type Stage } from '../support/server.js'
import { pathsOf } from '../support/extraction.js'
import { freePort } from '../support/free-port.js'
import { svc } from '../support/svc.js'
import { writeZipOf } from '../support/zips.js'
import { zipOf } from '../support/zip.js'

const count = 1500
const filesOf = (text: string) => Object.fromEntries(Array.from({ length: count }, (_, i) => [`f${i}`, text]))

/** A disk that fails after a number of renames, as for a process that is killed. */
function goneAfter(renames: number): Disk {
  let done = 0
  return new Proxy(realDisk, {
    get(real, name) {
      const call = real[name as keyof Disk] as (...args: unknown[]) => unknown
      if (typeof call !== 'function') return call
      return (...args: unknown[]) => {
        if (done >= renames) throw Object.assign(new Error('gone'), { code: 'EIO' })
        if (name === 'renameSync') done++
        return call(...args)
      }
    }
  })
}

const contentsOf = (target: string): string[] => [
  ...new Set(Array.from({ length: count }, (_, i) => readFileSync(join(target, `f${i}`), 'utf8')))
]

/** Creates a project with files, half overwritten by those of an interrupted extraction. */
async function interrupted(
  t: Parameters<typeof startServer>[0]
): Promise<{ stage: Stage; target: string; project: Project }> {
  const stage = await startServer(t)
  const project = await stage.createProject('shop')
  const target = join(stage.sites, 'shop')
  const zip = { filename: 'a.zip', bytes: await zipOf(filesOf('before')) }
  await stage.as(project.token).upload([
    ['projectId', project.id],
    ['file', zip]
  ])
  await stage.server.stop({ wait: true })
  const directory = join(stage.home.directory, '..')
  await writeZipOf(join(directory, 'archive.zip'), filesOf('after'))
  const { archivePath } = pathsOf(directory, 'dep_killed')
  const journalPath = join(stage.home.deployments, 'dep_killed.undo')
  const manifestPath = join(stage.home.deployments, 'dep_killed.manifest')
  const disk = goneAfter(count / 2)
  const limits = { maxEntries: 200_000, maxExtractedBytes: 1e9 }
  const job = { target, deployId: 'dep_killed', umask: process.umask(), masksModes: false, limits, isDurable: true }
  await runExtraction(job, filesAt(disk, { archivePath, journalPath, manifestPath }), { disk }).catch(() => {})
  return { stage, target, project }
}

function start(
  { home, environment }: Stage,
  port: number,
  t: { teardown(work: () => unknown): void }
): Promise<RunningServer> {
  const starting = serve({ home, port, cwd: home.directory, environment, report: { info() {}, warn() {} } })
  t.teardown(async () => (await starting).stop({ wait: false }))
  return starting
}

t.test('reports `starting` as health until the target is restored; other requests wait', async t => {
  const { stage, target } = await interrupted(t)
  t.same(contentsOf(target).sort(), ['after', 'before'], 'the target is mixed')
  const port = await freePort()
  const client = createClient(() => `http://127.0.0.1:${port}`, adminToken)
  const starting = start(stage, port, t)
  const seen = new Map<number, { body: unknown; headers: Record<string, unknown> }>()
  let waiting: Promise<string[]> | undefined
  while (!seen.has(200)) {
    const reply = await client.get('/api/health').catch(() => null)
    if (reply === null) continue
    if (!seen.has(reply.status)) seen.set(reply.status, reply)
    waiting ??= client.get('/api/overview').then(() => contentsOf(target))
  }
  t.same(contentsOf(target), ['before'])
  t.same(await waiting, ['before'])
  t.match(seen.get(503), { body: { status: 'starting' }, headers: { 'retry-after': '1' } })
  await starting
  t.same(
    readdirSync(target).filter(name => name.startsWith('.svc')),
    []
  )
})

t.test('makes svc health --wait and svc push wait for a server that is starting', async t => {
  const { stage, target, project } = await interrupted(t)
  const port = await freePort()
  const url = `http://127.0.0.1:${port}`
  const client = createClient(() => url, adminToken)
  const starting = start(stage, port, t)
  while ((await client.get('/api/health').catch(() => null)) === null);
  const cwd = join(stage.home.directory, '../client')
  mkdirSync(join(cwd, 'out'), { recursive: true })
  writeFileSync(join(cwd, 'out/pushed.txt'), 'pushed')
  const [health, push] = await Promise.all([
    svc(['health', '--url', url, '--wait', '60'], { cwd }),
    svc(['push', '--server', url, '--project', project.id, '--token', project.token, '--out', 'out'], { cwd })
  ])
  t.match(health, { code: 0, stdout: /^ok, / })
  t.equal(push.code, 0, push.stderr)
  t.equal(readFileSync(join(target, 'pushed.txt'), 'utf8'), 'pushed')
  await starting
})

t.test('reports good health from the first answer on if nothing was interrupted', async t => {
  const stage = await startServer(t)
  await stage.server.stop({ wait: true })
  const port = await freePort()
  const client = createClient(() => `http://127.0.0.1:${port}`, adminToken)
  const starting = start(stage, port, t)
  for (;;) {
    const reply = await client.get('/api/health').catch(() => null)
    if (reply === null) continue
    t.match(reply, { status: 200, body: { status: 'ok' } })
    break
  }
  await starting
})
