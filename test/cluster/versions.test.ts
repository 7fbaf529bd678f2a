import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { schemaVersion } from '../../lib/core/store/schema.js'
import { startCluster, type ClusterStage } from '../support/cluster-stage.js'
import { withoutEtcd } from '../support/etcd.js'
import { newerSvc } from '../support/newer-svc.js'
import { matching } from '../support/sentences/matching.js'
import { serverSays } from '../support/sentences/server.js'
import type { ServeProcess } from '../support/serve-process.js'
import { until } from '../support/until.js'

/* docs/fleet.md, "Upgrade the hubs of a cluster": hubs of two versions, as whole servers on etcd. */

/** Starts a hub of a newer version that must wait. Returns what it says, and the server when it leads. */
async function waitingHub(stage: ClusterStage, at: 0 | 1, { program, schema }: { program: string; schema: number }) {
  let said = ''
  const opened = stage.start(at, { program, onOutput: text => void (said += text) })
  await until(() => said.includes(serverSays.waitsForSchema(schema - 1, schema)))
  return { opened, said: () => said }
}

/** Sends a request to a hub that waits. */
async function asked(stage: ClusterStage, at: 0 | 1, path: string) {
  const response = await fetch(stage.urls[at] + path)
  return { status: response.status, body: (await response.json()) as Record<string, unknown> }
}

/** Exports the audit log of a hub and verifies it. `anchor` is an earlier export, which it must begin with. */
async function verified(t: Test, hub: ServeProcess, { cwd, run }: ClusterStage, name: string, anchor?: string) {
  const env = { SVC_SERVER_URL: hub.url, SVC_TOKEN: hub.adminToken }
  const path = join(cwd, `${name}.jsonl`)
  const exported = await run(0, ['audit', 'export', '--out', path], { env })
  t.equal(exported.code, 0, exported.stderr)
  const anchors = anchor === undefined ? [] : ['--anchor', `${anchor}.note`]
  const { code, stdout, stderr } = await run(0, ['audit', 'verify', path, ...anchors])
  t.equal(code, 0, `${stdout}${stderr}`)
  const { note } = await hub.api<{ note: string }>('GET', '/api/audit/checkpoint')
  writeFileSync(join(cwd, `${name}.note`), note)
}

t.test('hubs are upgraded one after the other', { skip: withoutEtcd() }, async t => {
  const stage = await startCluster(t, ['n1'])
  const { cwd, hubs, run } = stage
  const newer = { ...newerSvc(cwd, 1), schema: schemaVersion + 1 }
  const newest = { ...newerSvc(cwd, 2), schema: schemaVersion + 2 }
  const site = join(cwd, 'n1', 'www', 'index.html')
  const project = await stage.placedProject('Shop', {})
  await (await hubs[0].upload(project, { 'index.html': 'one' })).finished
  await verified(t, hubs[0], stage, 'before')
  const idsOf = async (hub: ServeProcess) => (await hub.deployments(project.id)).map(({ id }) => id)
  const deployments = await idsOf(hubs[0])
  const named = async (hub: ServeProcess) =>
    (await hub.api<Array<{ name: string }>>('GET', '/api/categories')).map(({ name }) => name)
  const name = (hub: ServeProcess, name: string) => hub.api('POST', '/api/categories', { name, color: 'blue' })

  await t.test('a newer follower waits, and says so', async t => {
    await hubs[1].stop()
    const stopped = await run(1, ['serve'], { program: newer.program, interruptAt: /This hub waits/ })
    t.match(stopped, { code: 0, signal: null }, 'it can be stopped')
    const waiting = await waitingHub(stage, 1, newer)
    t.match(waiting.said(), matching(serverSays.stopToUpgrade('h1')))
    for (const path of ['/api/health', '/', '/api/projects']) {
      const answer = { status: 503, body: { code: 'not_leader', error: matching(serverSays.hubWaits) } }
      t.match(await until(() => asked(stage, 1, path).catch(() => null)), answer, path)
    }
    await name(hubs[0], 'while it waits')
    const refused = await hubs[0].upload(project, { 'index.html': 'x' }).catch((error: Error) => error.message)
    t.match(refused, /no_second_copy/)
    t.match(refused, matching(serverSays.hubWaits))

    await hubs[0].stop()
    await waiting.opened
    await until(async () => (await stage.roleOf(1)) === 'leader')
    await name(hubs[1], 'after the migration')
    t.strictSame(await named(hubs[1]), ['after the migration', 'while it waits'])
    t.strictSame(await idsOf(hubs[1]), deployments)
    await verified(t, hubs[1], stage, 'migrated', 'before')
  })

  await t.test('the older program is refused, and changes nothing', async t => {
    const before = readFileSync(join(cwd, 'h1', 'svc.db'))
    const { code, stderr } = await run(0, ['serve'])
    t.equal(code, 1)
    t.match(stderr, matching(serverSays.tooOldForCluster(newer.schema, schemaVersion)))
    t.ok(readFileSync(join(cwd, 'h1', 'svc.db')).equals(before), 'its database is as it was')
    await stage.startAgain(0, { program: newer.program })
    await (await hubs[0].upload(project, { 'index.html': 'two' })).finished
    t.equal(readFileSync(site, 'utf8'), 'two')
    for (const hub of hubs) await verified(t, hub, stage, 'joined', 'migrated')
    await hubs[0].stop()
    t.match(await run(0, ['serve']), {
      code: 1,
      stderr: matching(serverSays.tooOldForDatabase(newer.schema, schemaVersion))
    })
    await stage.startAgain(0, { program: newer.program })
  })

  await t.test('the leader is upgraded first', async t => {
    await hubs[1].stop()
    const waiting = await waitingHub(stage, 1, newest)
    t.match(waiting.said(), matching(serverSays.stopToUpgrade('h1')))
    t.equal(await stage.roleOf(0), 'leader')
    await name(hubs[0], 'by the older one')
    await hubs[0].stop()
    await waiting.opened
    await until(async () => (await stage.roleOf(1)) === 'leader')
    await stage.startAgain(0, { program: newest.program })
    await (await hubs[0].upload(project, { 'index.html': 'three' })).finished
    t.equal(readFileSync(site, 'utf8'), 'three')
    for (const hub of hubs) {
      t.strictSame(await named(hub), ['after the migration', 'by the older one', 'while it waits'])
      t.equal((await idsOf(hub)).length, deployments.length + 2)
      await verified(t, hub, stage, 'end', 'joined')
    }
  })
})
