import t from 'tap'
import { existsSync, readdirSync, readFileSync, truncateSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { startAgentStage, type AgentStage } from '../../support/agent-stage.js'
import { until } from '../../support/until.js'

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
