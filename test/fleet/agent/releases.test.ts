import t from 'tap'
import type { Test } from 'tap'
import { existsSync, readdirSync, readFileSync, truncateSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { randomBytes } from 'node:crypto'
import { type AgentStage, startAgentStage } from '../../support/agent-stage.js'
import { until } from '../../support/until.js'
import type { FakeRelease } from '../../support/fake-hub.js'

const bytes = (size: number): string =>
  Array.from({ length: size / 8 }, (_, at) => String(at * 7919).padStart(8)).join('')
const prepared = (stage: AgentStage): string => join(stage.home, 'prepared')

t.test('a transfer that breaks continues where it was', async t => {
  const stage = await startAgentStage(t)
  const { hub } = stage
  const release = await hub.release('proj_a', { big: bytes(4_000_000) }, { deployPath: `${stage.sites}/a` })
  const half = release.archive.length >> 1
  const ranges: unknown[] = []
  hub.intercept = (request, response) => {
    if (!request.url?.includes('/blobs/')) return false
    ranges.push(request.headers.range)
    if (ranges.length > 1) return false
    response.writeHead(200, { 'content-length': release.archive.length })
    response.write(release.archive.subarray(0, half))
    void until(() => existsSync(join(prepared(stage), `${release.archiveSha256}.part`))).then(() => response.destroy())
    return true
  }
  await hub.answer(hub.order(release, 'prepare'), 'prepared')
  t.equal(ranges[0], undefined)
  t.match(ranges[1], /^bytes=\d+-$/)
  t.strictSame(readFileSync(join(prepared(stage), `${release.archiveSha256}.zip`)), release.archive)
})

t.test('a damaged archive is fetched once more, then refused', async t => {
  const stage = await startAgentStage(t)
  const { hub } = stage
  const release = await hub.release('proj_a', { a: '1' }, { deployPath: `${stage.sites}/a` })
  let sent = 0
  hub.intercept = (request, response) => {
    if (!request.url?.includes('/blobs/')) return false
    sent++
    response.end(Buffer.alloc(release.archive.length))
    return true
  }
  const { error } = await hub.answer(hub.order(release, 'prepare'), 'refused')
  t.match(error, /has the SHA-256/)
  t.equal(sent, 2)
  hub.intercept = null
  await hub.answer(hub.order(release, 'prepare'), 'prepared')
})

t.test('a document that the hub did not sign, or that is about something else, is refused', async t => {
  const stage = await startAgentStage(t)
  const { hub } = stage
  const release = await hub.release('proj_a', { a: '1' }, { deployPath: `${stage.sites}/a` })
  hub.intercept = (request, response) => {
    if (!request.url?.includes('/releases/')) return false
    response.writeHead(200, { 'svc-signature': 'AAAA' }).end(JSON.stringify(release))
    return true
  }
  t.match((await hub.answer(hub.order(release, 'prepare'), 'refused')).error, /signature/)
  hub.intercept = null
  const other = await hub.release('proj_b', { a: '1' })
  t.match(
    (await hub.answer(hub.order({ ...release, deployId: other.deployId }, 'prepare', { number: 2 }), 'refused')).error,
    /another/
  )
})

t.test('archives are removed after a day, and after they are in place', async t => {
  const stage = await startAgentStage(t)
  const { hub } = stage
  const release = await hub.release('proj_a', { a: '1' }, { deployPath: `${stage.sites}/a` })
  await hub.answer(hub.order(release, 'prepare'), 'prepared')
  const old = join(prepared(stage), `${'ab'.repeat(32)}.part`)
  const foreign = join(prepared(stage), 'notes')
  for (const path of [old, foreign]) writeFileSync(path, 'x')
  for (const path of [old, foreign]) utimesSync(path, 1, 1)
  t.equal(readdirSync(prepared(stage)).length, 3)
  await stage.restart()
  await until(() => !existsSync(old))
  t.ok(existsSync(foreign))
  await hub.connected()
  await hub.answer(hub.order(release, 'swap'), 'good')
  await until(() => readdirSync(prepared(stage)).length === 1)
})

t.test('a kept archive that was cut off is fetched again', async t => {
  const stage = await startAgentStage(t)
  const { hub } = stage
  const release = await hub.release('proj_a', { a: '1' }, { deployPath: `${stage.sites}/a` })
  await hub.answer(hub.order(release, 'prepare'), 'prepared')
  truncateSync(join(prepared(stage), `${release.archiveSha256}.zip`), 5)
  await hub.answer(hub.order(release, 'swap'), 'good')
})

/** Files whose contents cannot be packed. */
const files = (count: number): Record<string, string> =>
  Object.fromEntries(
    Array.from({ length: count }, (_, at) => [`assets/file-${at}.bin`, randomBytes(16_000).toString('base64')])
  )

/** Counts the bytes of archives that travel, and what was asked for. */
async function aStage(t: Test): Promise<AgentStage & { sent(): { bytes: number; asked: string[] } }> {
  const stage = await startAgentStage(t)
  let [bytes, asked]: [number, string[]] = [0, []]
  stage.hub.intercept = (request, response) => {
    if (!request.url?.includes('/blobs/')) return false
    asked.push(`${request.method} ${request.url.replace(/.*blobs\/\w+/, '')}`)
    const { end } = response
    response.end = ((chunk?: Buffer, ...rest: []) => {
      bytes += chunk?.length ?? 0
      return Reflect.apply(end, response, [chunk, ...rest])
    }) as typeof response.end
    return false
  }
  return Object.assign(Object.create(stage) as AgentStage, {
    sent() {
      const since = { bytes, asked }
      ;[bytes, asked] = [0, []]
      return since
    }
  })
}

async function deploy({ hub, sites }: AgentStage, contents: Record<string, string>, number: number) {
  const release = await hub.release('proj_a', contents, { deployPath: `${sites}/a` })
  await hub.answer(hub.order(release, 'prepare', { number }), 'prepared')
  return release
}

async function swap(
  { hub, sites }: AgentStage,
  release: FakeRelease,
  contents: Record<string, string>,
  number: number
) {
  await hub.answer(hub.order(release, 'swap', { number }), 'good')
  for (const [path, text] of Object.entries(contents)) {
    if (readFileSync(join(sites, 'a', path), 'utf8') !== text) return path
  }
  return null
}

t.test('a node fetches only what its earlier archive lacks', async t => {
  const stage = await aStage(t)
  const first = files(40)
  const one = await deploy(stage, first, 1)
  t.same(stage.sent(), { bytes: one.archive.length, asked: ['GET '] }, 'the first one is fetched whole')
  t.equal(await swap(stage, one, first, 1), null)

  const second = { ...first, 'assets/file-7.bin': 'changed', 'new.bin': randomBytes(9000).toString('hex') }
  const two = await deploy(stage, second, 2)
  const { bytes, asked } = stage.sent()
  t.same(asked, ['GET ', 'POST /ranges'])
  t.ok(bytes < 64 * 1024 + 30_000 && two.archive.length > 400_000, `${bytes} of ${two.archive.length} bytes`)
  t.strictSame(readFileSync(join(stage.home, 'prepared', `${two.archiveSha256}.zip`)), two.archive)
  t.equal(await swap(stage, two, second, 2), null)

  const other = files(40)
  const three = await deploy(stage, other, 3)
  t.same(stage.sent().asked, ['GET ', 'GET '], 'nothing in common: the directory, then the whole archive')
  t.equal(await swap(stage, three, other, 3), null)
})

t.test('a delta that does not fit is noticed, and the whole archive is fetched', async t => {
  const stage = await aStage(t)
  const { hub, home } = stage
  const contents = files(40)
  const one = await deploy(stage, contents, 1)
  await swap(stage, one, contents, 1)
  const [name] = readdirSync(join(home, 'deployments')).filter(each => each.endsWith('.zip')) as [string]
  const kept = join(home, 'deployments', name)
  const whole = readFileSync(kept)
  let number = 1
  const next = async (what: string, asked: string[]) => {
    const changed = { ...contents, 'new.txt': `${++number}` }
    stage.sent()
    const release = await deploy(stage, changed, number)
    t.same(stage.sent().asked, asked, what)
    t.strictSame(readFileSync(join(home, 'prepared', `${release.archiveSha256}.zip`)), release.archive)
  }
  const damaged = Buffer.from(whole)
  damaged[5000] = (damaged[5000] as number) ^ 1
  writeFileSync(kept, damaged)
  await next('other bytes of a file', ['GET ', 'POST /ranges', 'GET '])
  writeFileSync(kept, whole.subarray(0, whole.length >> 1))
  await next('half an archive', ['GET ', 'GET '])
  writeFileSync(kept, whole)
  const { intercept } = hub
  hub.intercept = (request, response) => {
    intercept?.(request, response)
    if (!request.url?.endsWith('/ranges')) return false
    response.writeHead(404, { 'content-type': 'application/json' }).end('{"error":"Not found","code":"not_found"}')
    return true
  }
  await next('a hub of an older version', ['GET ', 'POST /ranges', 'GET '])
})
