/*
 * A server is killed (SIGKILL) at random moments of deployments that prune, of undos and of exact rollbacks, and started
 * again: `node way-back.js [seconds] [seed] [kills]`; it ends with whichever comes first. After each start the target must
 * be as before the change or as after it, the record must say which, nothing may be left of the change, and every file
 * must be as deployed. Prints TAP, and as a comment how often what was found.
 */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { createCrashClient, type CrashClient } from '../support/crash-client.js'
import { awaitHealth, startCrashServer, type CrashServer } from '../support/crash-server.js'
import { compare, linesOf, modelLines, zipOfItems } from '../support/history.js'
import { createRandom, type Random } from '../support/random.js'
import { TargetModel, type ArchiveItem } from '../support/target-model.js'
import type { Deployment } from '../../lib/model/deployment.js'

const seconds = Number(process.argv[2] ?? 600)
const seed = Number(process.argv[3] ?? 1)
const maxKills = Number(process.argv[4] ?? Number.POSITIVE_INFINITY)
const skip = process.platform !== 'linux' && 'targets are held by descriptors of /proc'
const policy = { drift: 'warn', prune: true, protect: null } as const
/** Enough files for a change of some tens of milliseconds. */
const paths = Array.from({ length: 150 }, (_, at) => `${['a', 'b/c', 'd'][at % 3]}/f${at}`)

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
  const target = join(stage.places.sites, 'site')
  const random = createRandom(seed)
  const seen: Record<string, number> = { kills: 0, before: 0, after: 0 }
  let model = new TargetModel()
  let known = new Set<string>()
  const endMs = Date.now() + seconds * 1000
  while (Date.now() < endMs && (seen['kills'] as number) < maxKills) {
    const change = randomChange(random, model)
    const asked = change.send(stage)
    await Promise.race([asked, momentOf(random, stage)])
    await stage.server.kill()
    seen['kills']!++
    await asked
    await restart(t, base, stage)
    const records = (await stage.client.call('GET', `/api/logs?projectId=${stage.project.id}&limit=500`, stage.token))
      ?.body as Deployment[]
    const [record] = records.filter(({ id }) => !known.has(id))
    known = new Set(records.map(({ id }) => id))
    const after = model.copy()
    if (record !== undefined && record.placed !== null) change.apply(after, record.id)
    const differing = compare('target', modelLines(after), linesOf(target))
    const state = record?.placed == null ? 'before' : 'after'
    seen[state]!++
    const left = [
      ...readdirSync(join(stage.places.home, 'deployments')).filter(name => /\.(undo|tmp)$/.test(name)),
      ...readdirSync(target).filter(name => name.startsWith('.svc'))
    ]
    if (differing.length > 0 || left.length > 0) {
      t.fail(
        `${change.what}, ${record?.id} ${record?.status}: ${state}: ${[...differing, ...left].slice(0, 20).join('; ')}`
      )
      break
    }
    model = after
    await verify(t, stage)
  }
  await stage.server.kill()
  t.comment(seen)
  t.ok((seen['kills'] as number) > 0, `${seen['kills']} kills, ${seen['after']} times after the change`)
})

/** Half of the kills come while an undo journal exists, the others at any time. */
async function momentOf(random: Random, { places }: Stage): Promise<void> {
  if (random.below(2) === 0) return sleep(2 + random.below(600))
  const deployments = join(places.home, 'deployments')
  for (let tries = 0; tries < 3000 && !readdirSync(deployments).some(name => name.endsWith('.undo')); tries++) {
    await sleep(1)
  }
  await sleep(random.below(60))
}

interface Change {
  what: string
  send(stage: Stage): Promise<unknown>
  apply(model: TargetModel, id: string): void
}

function randomChange(random: Random, model: TargetModel): Change {
  const number = random.below(model.placed.length)
  const kind = model.placed.length < 2 ? 0 : random.below(4)
  if (kind < 2) {
    const items = randomItems(random)
    return {
      what: 'a deployment',
      send: ({ client, project }) =>
        client.upload(
          project.token,
          [
            ['projectId', project.id],
            ['file', { filename: 'site.zip', bytes: zipOfItems(items) }]
          ],
          {}
        ),
      apply: (model, id) => void model.deploy(id, items, policy)
    }
  }
  const isUndo = kind === 2 || number === 0
  const goal = isUndo ? model.placed.length - 1 : number
  const path = isUndo ? null : `/api/deployments/${model.placed[goal - 1]?.id}/rollback`
  return {
    what: isUndo ? 'an undo' : `a rollback to ${goal}`,
    send: ({ client, project, token }) =>
      client.call('POST', path ?? `/api/projects/${project.id}/undo`, token, isUndo ? {} : { mode: 'exact' }),
    apply: (model, id) => void model.goBack(id, goal, false)
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

/** Every file is as deployed, so the owned tree is true. */
async function verify(t: Test, { client, project, token }: Stage): Promise<void> {
  const answer = await client.call('GET', `/api/projects/${project.id}/verify`, token)
  const end = answer?.body as { event: string; files: number; ok: number } | undefined
  if (end?.event !== 'end' || end.files !== end.ok) t.fail(`verification: ${answer?.text.slice(0, 500)}`)
}
