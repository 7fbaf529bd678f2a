/*
 * A server is killed (SIGKILL) at random moments of deployments that prune, of undos and of exact rollbacks, which are
 * held by checks, scripts and confirmations, and started again, sometimes to be killed at once: `node way-back.js
 * [seconds] [seed] [kills]`; it ends with whichever comes first. When the change has ended after a start, the target must
 * be as before it or as after it, the record must say which, nothing may be left of the change, the owned tree must be
 * that of the model, and every file must be as deployed. Prints TAP, and as a comment how often what was found.
 */
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import type { FormFields } from '../support/client.js'
import { createCrashClient, type CrashClient } from '../support/crash-client.js'
import { awaitHealth, startCrashServer, type CrashServer } from '../support/crash-server.js'
import { sha256 } from '../../lib/base/digests.js'
import { compare, entryOf, linesOf, modelLines, zipOfItems } from '../support/history.js'
import { checkedService, decide, type RandomHold } from '../support/random-holds.js'
import { createRandom, type Random } from '../support/random.js'
import { changesOf } from '../support/sent-changes.js'
import { TargetModel, type ArchiveItem } from '../support/target-model.js'
import type { Deployment } from '../../lib/model/deployment.js'

const seconds = Number(process.argv[2] ?? 600)
const seed = Number(process.argv[3] ?? 1)
const maxKills = Number(process.argv[4] ?? Number.POSITIVE_INFINITY)
const skip = process.platform !== 'linux' && 'targets are held by descriptors of /proc'
const policy = { drift: 'warn', prune: true, protect: null } as const
/** Enough files for a change of some tens of milliseconds. */
const paths = Array.from({ length: 150 }, (_, at) => `${['a', 'b/c', 'd'][at % 3]}/f${at}`)

/** Longer than a confirmation that does not come. */
const endsWithinMs = 60_000

interface Stage {
  places: { home: string; sites: string; proofs: string; temporary: string }
  server: CrashServer
  client: CrashClient
  token: string
  project: { id: string; token: string }
}

t.setTimeout(0)
t.test('killed on the way there and back', { skip, timeout: 0 }, async t => {
  const base = mkdtempSync(join(realpathSync(tmpdir()), 'svc-way-back-'))
  t.teardown(() => rmSync(base, { recursive: true, force: true }))
  const stage = await begin(t, base)
  const service = await checkedService(t)
  const target = join(stage.places.sites, 'site')
  const random = createRandom(seed)
  const seen: Record<string, number> = {
    ...{ kills: 0, before: 0, after: 0, changes: 0, held: 0, reverted: 0, keptJournals: 0 }
  }
  const count = (what: string): void => void (seen[what] = (seen[what] ?? 0) + 1)
  let model = new TargetModel()
  let known = new Set<string>()
  const releases = new Map<string, readonly ArchiveItem[]>()
  const endMs = Date.now() + seconds * 1000
  while (Date.now() < endMs && (seen['kills'] as number) < maxKills) {
    const change = await randomChange(random, { model, stage, releases })
    const hold = service.next(random)
    await setHold(stage, hold)
    const asked = change.send(stage)
    const decided = decideHold(stage, hold, known)
    await Promise.race([asked, momentOf(random, stage)])
    for (let again = true; again; again = random.below(4) === 0) {
      if (again && journalsOf(stage).length > 0) count('keptJournals')
      await stage.server.kill()
      count('kills')
      await restart(t, base, stage)
      await sleep(random.below(3) === 0 ? random.below(400) : 0)
    }
    await Promise.all([asked, decided])
    const record = await ended(stage, hold, known)
    if (record !== null) known.add(record.id)
    if (record !== null && change.items !== null) releases.set(record.id, change.items)
    if (record?.reusedFrom != null) count('changes')
    if (record?.steps.some(({ name }) => name === 'check' || name === 'confirm')) count('held')
    if (record?.revertedAt != null) count('reverted')
    const after = model.copy()
    if (record !== null && record.placed !== null) change.apply(after, record.id)
    const state = record === null || record.placed === null ? 'before' : 'after'
    count(state)
    const faults = [
      ...compare('target', modelLines(after), linesOf(target)),
      ...leftBy(stage, record),
      ...(await untrue(stage, after))
    ]
    if (faults.length > 0) {
      const what = `${change.what} with ${hold.what}, ${record?.id} ${record?.status}`
      t.fail(`${what}: ${state}: ${faults.slice(0, 20).join('; ')}`)
      break
    }
    model = after
    known = new Set([...known].slice(-10))
  }
  await stage.server.kill()
  t.comment(seen)
  t.ok((seen['kills'] as number) > 0, `${seen['kills']} kills, ${seen['after']} times after the change`)
})

/** Most of the kills come while an undo journal exists, the others at any time. */
async function momentOf(random: Random, stage: Stage): Promise<void> {
  if (random.below(3) === 0) return sleep(2 + random.below(600))
  for (let tries = 0; tries < 3000 && journalsOf(stage).length === 0; tries++) await sleep(1)
  await sleep(random.below(random.oneOf([60, 60, 1500, 4000])))
}

function journalsOf({ places }: Stage): string[] {
  return readdirSync(join(places.home, 'deployments')).filter(name => name.endsWith('.undo'))
}

/** Sets how the next deployment is held. */
async function setHold({ places, client, token, project }: Stage, { policy, scriptFails }: RandomHold): Promise<void> {
  const flag = join(places.proofs, 'fail')
  rmSync(flag, { force: true })
  if (scriptFails) writeFileSync(flag, '')
  const answer = await client.call('PUT', `/api/projects/${project.id}`, token, {
    policy: { ...policy, prune: 'managed' },
    postDeployScript: `test ! -e "${flag}"`
  })
  if (answer?.status !== 200) throw new Error(`Cannot change the project: ${answer?.text}`)
}

/** Returns the newest deployment that is not known; null: there is none, or the server was killed. */
async function newest({ client, token, project }: Stage, known: ReadonlySet<string>): Promise<Deployment | null> {
  const answer = await client.call('GET', `/api/logs?projectId=${project.id}&limit=1`, token)
  if (answer?.status !== 200) return null
  const [record] = answer.body as Deployment[]
  return record === undefined || known.has(record.id) ? null : record
}

/** Decides about the deployment as its hold says, until the server is killed. */
async function decideHold(stage: Stage, { decision }: RandomHold, known: ReadonlySet<string>): Promise<void> {
  const { client, server, token } = stage
  await decide(decision, {
    last: () => newest({ ...stage, client }, known),
    ask: async path => (await client.call('POST', path, token, {}))?.status ?? 0,
    isOver: () => !server.isRunning()
  })
}

/** Waits until the change has ended. Returns its record; null if the server had not recorded it. */
async function ended(stage: Stage, hold: RandomHold, known: ReadonlySet<string>): Promise<Deployment | null> {
  const untilMs = Date.now() + endsWithinMs
  const { client, token } = stage
  let isOver = (await newest(stage, known)) === null
  await decide(hold.decision, {
    last: () => newest(stage, known),
    ask: async path => (await client.call('POST', path, token, {}))?.status ?? 0,
    isOver: () => isOver || (isOver = Date.now() > untilMs)
  })
  for (;;) {
    const record = await newest(stage, known)
    if (record === null || (record.status !== 'queued' && record.status !== 'running')) return record
    if (Date.now() > untilMs) throw new Error(`${record.id} does not end: ${hold.what}`)
    await sleep(10)
  }
}

/** Returns what is left of a change that has ended. */
function leftBy({ places }: Stage, record: Deployment | null): string[] {
  const deployments = join(places.home, 'deployments')
  const copies = record !== null && record.placed === null ? [`${record.id}.before.zip`] : []
  return [
    ...readdirSync(deployments).filter(name => /\.(undo|tmp)$/.test(name)),
    ...copies.filter(name => existsSync(join(deployments, name))),
    ...readdirSync(join(places.sites, 'site')).filter(name => name.startsWith('.svc'))
  ].map(name => `left: ${name}`)
}

interface Change {
  what: string
  /** What a deployment puts in place; null: it is none. */
  items: readonly ArchiveItem[] | null
  send(stage: Stage): Promise<unknown>
  apply(model: TargetModel, id: string): void
}

interface Site {
  model: TargetModel
  stage: Stage
  releases: ReadonlyMap<string, readonly ArchiveItem[]>
}

async function randomChange(random: Random, site: Site): Promise<Change> {
  const { model } = site
  const number = random.below(model.placed.length)
  const kind = model.placed.length < 2 ? 0 : random.below(4)
  if (kind < 2) {
    const wanted = randomItems(random)
    const { items, fields } = (random.below(2) === 0 ? null : await changesSince(site, wanted)) ?? {
      items: wanted,
      fields: [['file', { filename: 'site.zip', bytes: zipOfItems(wanted) }]] as FormFields
    }
    return {
      what: `a deployment of ${fields.length === 1 ? 'all files' : 'changes'}`,
      items,
      send: ({ client, project }) => client.upload(project.token, [['projectId', project.id], ...fields], {}),
      apply: (model, id) => void model.deploy(id, items, policy)
    }
  }
  const isUndo = kind === 2 || number === 0
  const goal = isUndo ? model.placed.length - 1 : number
  const path = isUndo ? null : `/api/deployments/${model.placed[goal - 1]?.id}/rollback`
  return {
    items: null,
    what: isUndo ? 'an undo' : `a rollback to ${goal}`,
    send: ({ client, project, token }) =>
      client.call('POST', path ?? `/api/projects/${project.id}/undo`, token, isUndo ? {} : { mode: 'exact' }),
    apply: (model, id) => void model.goBack(id, goal, { force: false, isUndo })
  }
}

/** Returns what changed since the newest release; null: there is none that is known. */
async function changesSince(
  { stage: { client, project }, releases }: Site,
  wanted: readonly ArchiveItem[]
): Promise<{ items: readonly ArchiveItem[]; fields: FormFields } | null> {
  const permit = await client.call('GET', `/api/deploy/check?projectId=${project.id}`, project.token)
  const deployId = permit?.body?.base?.deployId as string | undefined
  const base = releases.get(deployId ?? '')
  if (base === undefined) return null
  const path = `/api/deploy/base?projectId=${project.id}&deployId=${deployId}`
  const tree = await client.bytes(path, project.token)
  if (tree === null) throw new Error(`There is no tree of ${deployId}`)
  const { treeSha256, delta, contents, same } = changesOf(wanted.map(entryOf), tree)
  const before = new Map(base.map(item => [item.path, item]))
  return {
    items: wanted.map(item => (same.has(item.path) ? (before.get(item.path) ?? item) : item)),
    fields: [
      ['base', deployId as string],
      ['treeSha256', treeSha256],
      ['tree', { filename: 'tree', bytes: delta }],
      ['file', { filename: 'site.zip', bytes: contents }]
    ]
  }
}

function randomItems(random: Random): ArchiveItem[] {
  const items = paths.flatMap((path): ArchiveItem[] => {
    if (random.below(3) === 0) return []
    const mode = random.oneOf([0o644, 0o755])
    const timeUs = (1_700_000_000 + random.below(3)) * 1e6
    return [{ path, type: 'file', text: random.oneOf(['one', 'two', 'x'.repeat(9000)]), mode, timeUs }]
  })
  // More than half of the files would be too much for a prune that is not forced.
  return items.length > 80 ? items : randomItems(random)
}

async function begin(t: Test, base: string): Promise<Stage> {
  const at = (name: string): string => {
    mkdirSync(join(base, name))
    return join(base, name)
  }
  const places = { home: at('home'), sites: at('sites'), proofs: at('proofs'), temporary: at('tmp') }
  const server = startCrashServer(base, places)
  const stage: Stage = { places, server, client: createCrashClient(''), token: '', project: { id: '', token: '' } }
  await listening(t, stage)
  const { adminToken } = JSON.parse(readFileSync(join(places.home, 'config.json'), 'utf8')) as { adminToken: string }
  stage.token = adminToken
  await stage.client.call('PUT', '/api/settings', adminToken, { keep_archives: '1000', keep_undo: '900' })
  const fields = { name: 'site', deployPath: join(places.sites, 'site'), policy: { prune: 'managed' } }
  mkdirSync(fields.deployPath)
  const answer = await stage.client.call('POST', '/api/projects', adminToken, fields)
  if (answer?.status !== 200) throw new Error(`Cannot create the project: ${answer?.text}`)
  stage.project = (answer.body as { project: Stage['project'] }).project
  return stage
}

async function restart(t: Test, base: string, stage: Stage): Promise<void> {
  stage.server = startCrashServer(base, stage.places)
  await listening(t, stage)
}

async function listening(t: Test, stage: Stage): Promise<void> {
  const url = await stage.server.listens
  if (url === null) throw new Error(`The server ended: ${stage.server.said()}`)
  const healthy = await awaitHealth(url, sentence => t.fail(sentence))
  if (healthy === null) throw new Error('The server is not healthy')
  stage.client = healthy.client
}

/** Returns how the owned tree differs from that of the model. Every file must be as deployed. */
async function untrue({ client, project, token }: Stage, { owned }: TargetModel): Promise<string[]> {
  const answer = await client.call('GET', `/api/projects/${project.id}/verify?sums=1`, token)
  const events = (answer?.text ?? '')
    .split('\n')
    .filter(Boolean)
    .map(line => JSON.parse(line) as { event: string; path: string; sha256: string; files: number; ok: number })
  const end = events.at(-1)
  const isFine = end?.event === 'end' && end.files === end.ok
  const found = events.flatMap(({ event, path, sha256 }) => (event === 'file' ? [`${path} ${sha256}`] : []))
  const wanted = [...owned].map(([path, { text }]) => `${path} ${sha256(Buffer.from(text)).toString('hex')}`)
  return [...(isFine ? [] : [`verification: ${answer?.text.slice(0, 500)}`]), ...compare('owned', wanted, found)]
}
