/*
 * Pushes of changes, promotions and undos while connections are cut at random bytes, and clients, servers and nodes are
 * killed (SIGKILL) at random moments. After each fault the target is as before or as after, whichever its record says,
 * everything that was acknowledged is there, each kept release is readable as a whole, and nothing is left behind. Then
 * the same push, without a fault, must bring exactly what the client has.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { appendFileSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { sha256, sha256OfFile } from '../../lib/base/digests.js'
import { entriesOfArchive } from '../../lib/core/archive/archive-tree.js'
import { anyArchive, openKept, writeWhole } from '../../lib/core/archive/pack-set.js'
import { treeOf } from '../../lib/core/archive/tree.js'
import type { Deployment } from '../../lib/model/deployment.js'
import type { Project } from '../../lib/model/project.js'
import { type AgentProcess, startAgentProcess } from './agent-process.js'
import { bare } from './bare.js'
import { findStrays } from './crash-leavings.js'
import { startCuttingRelay } from './cutting-relay.js'
import { sourcesOf } from './planned.js'
import { createRandom, type Random } from './random.js'
import { type ServeProcess, startServeProcess } from './serve-process.js'
import { bareEnvironment, svcPath } from './svc.js'
import { until } from './until.js'

interface Faults {
  seed: number
  /** Ends after as many faults, or at a time, whichever comes first. */
  faults: number
  untilMs: number
  /** An empty directory. */
  directory: string
}

/** What happened, and what was wrong; empty if nothing was. */
export interface FaultReport {
  seen: Record<string, number>
  wrong: string[]
}

type Relay = Awaited<ReturnType<typeof startCuttingRelay>>

interface Stage {
  base: string
  server: ServeProcess
  agent: AgentProcess
  /** Ways to the server: of clients, and of the node. */
  relay: Relay
  nodeRelay: Relay
  /** On the server itself, and on the node. */
  shop: Project
  placed: Project
  random: Random
  count(what: string): void
}

/** A client process. */
interface Client {
  child: ChildProcess
  ended: Promise<{ code: number | null; said: string }>
}

const site = 'site'
const textFiles = 40
/** Does not become smaller when it is packed, so it comes in several pieces after a cut. */
const largeBytes = 1_500_000
const keptArchives = 4
const killedSvc = fileURLToPath(new URL('killed-svc.js', import.meta.url))
/** More than the calls of a push that change a file or ask another process. */
const clientCalls = 60

/** Runs pushes with faults. */
export async function runPushFaults(
  t: { teardown(work: () => unknown): void },
  { seed, faults, untilMs, directory }: Faults
): Promise<FaultReport> {
  const random = createRandom(seed)
  const seen: Record<string, number> = { faults: 0 }
  const count = (what: string): void => void (seen[what] = (seen[what] ?? 0) + 1)
  const stage = await begin(t, { base: directory, random, count })
  /** The files of each tree that was pushed. */
  const contents = new Map<string, string[]>()
  const acknowledged = new Map<string, Project>()
  const wrong: string[] = []
  const lives = new Map<string, string[]>()
  for (let round = 0; (seen['faults'] as number) < faults && Date.now() < untilMs && wrong.length === 0; round++) {
    change(stage)
    const wanted = filesOf(join(directory, site))
    contents.set((await treeOf(await sourcesOf(join(directory, site)))).treeSha256, wanted)
    const action = actionOf(stage, lives, await newestPlaced(stage, stage.shop))
    const { project } = action
    const before = { files: lives.get(project.id) ?? [], newest: await newestPlaced(stage, project) }
    const after = action.kind === 'push' ? wanted : (lives.get(stage.shop.id) as string[])
    const { ends, fault } = await faulted(t, stage, action.words)
    count(fault)
    await restored(stage)
    const rows = await settled(stage, project)
    const placedNow = await newestPlaced(stage, project)
    const isNewer = placedNow?.id !== before.newest?.id
    // A rollout that failed says which nodes have it, and the others have what they had.
    const mayBeBoth = project.id === stage.placed.id && rows[0]?.status === 'failed'
    const isAfter = isNewer || (mayBeBoth && differences('', after, filesOf(targetOf(stage, project))).length === 0)
    const what = `round ${round}: ${action.kind} of ${project.name}, ${fault}, code ${ends.code}`
    if (ends.code === 0 && !isAfter) wrong.push(`${what}: it was acknowledged, and nothing is in place`)
    if (ends.code === 0 && placedNow !== null) acknowledged.set(placedNow.id, project)
    count(isAfter ? 'after' : 'before')
    const live = isAfter ? after : before.files
    wrong.push(...differences(what, live, filesOf(targetOf(stage, project))))
    wrong.push(...(await broken(stage, { project, rows, contents, acknowledged })).map(line => `${what}: ${line}`))
    if (/in pieces|Continuing an upload/.test(ends.said)) count('in pieces')
    if (rows.some(({ reusedFrom }) => reusedFrom != null)) count('changes')
    if (wrong.length > 0) wrong.push(ends.said)
    lives.set(project.id, live)
    // Everything goes on; sometimes, the next fault comes first.
    if (random.below(2) > 0 && wrong.length === 0) continue
    const again = await runClient(stage, [svcPath, ...action.words]).ended
    if (again.code !== 0) wrong.push(`${what}: the next one fails: ${again.said}`)
    else {
      await settled(stage, project)
      wrong.push(...differences(`${what}: the next one`, after, filesOf(targetOf(stage, project))))
      lives.set(project.id, after)
    }
    if (wrong.length > 0 || project.id !== stage.shop.id) continue
    if (random.below(6) > 0) continue
    wrong.push(...(await undo(stage, live)))
    lives.set(project.id, live)
  }
  return { seen, wrong: wrong.slice(0, 20) }
}

async function begin(
  t: { teardown(work: () => unknown): void },
  { base, random, count }: Pick<Stage, 'base' | 'random' | 'count'>
): Promise<Stage> {
  for (const name of [site, 'sites', 'node-sites', 'client', 'client-tmp', 'server-tmp']) mkdirSync(join(base, name))
  const server = await startServer(t, base)
  const stage = { base, server, random, count } as Stage
  stage.relay = await startCuttingRelay(t, () => stage.server.url)
  stage.nodeRelay = await startCuttingRelay(t, () => stage.server.url)
  await server.api('PUT', '/api/settings', { keep_archives: String(keptArchives) })
  const { token } = await server.api<{ token: string }>('POST', '/api/enrollments', { name: 'node' })
  stage.agent = await startAgentProcess(t, base, ['--hub', stage.nodeRelay.url, '--enroll', token])
  await stage.agent.says(/Connected to the hub/)
  for (const name of ['shop', 'placed'] as const) {
    const project = await server.createProject({ name, deployPath: join(base, 'sites', name) })
    stage[name] = project
    await server.changeProject(project.id, { policy: { prune: 'managed' } })
  }
  const add = [{ node: 'node', deployPath: join(base, 'node-sites', 'placed') }]
  await server.api('PATCH', `/api/projects/${stage.placed.id}/placements`, { add })
  for (const { name } of [stage.shop, stage.placed]) mkdirSync(targetOf(stage, stage[name as 'shop' | 'placed']))
  for (let at = 0; at < textFiles; at++) writeFileSync(join(base, site, `${at}.txt`), `${at} `.repeat(5000))
  return stage
}

const startServer = (t: { teardown(work: () => unknown): void }, base: string): Promise<ServeProcess> =>
  startServeProcess(t, base, [], { TMPDIR: join(base, 'server-tmp') })

function targetOf({ base, placed }: Stage, { id, name }: Project): string {
  return id === placed.id ? join(base, 'node-sites', name) : join(base, 'sites', name)
}

/** Changes some files of the client. */
function change({ base, random }: Stage): void {
  const place = (name: string): string => join(base, site, name)
  for (let changes = 1 + random.below(3); changes > 0; changes--)
    appendFileSync(place(`${random.below(textFiles)}.txt`), `${random.below(1e6)}`)
  const names = readdirSync(place(''))
  if (random.below(4) === 0 && names.length > 5) rmSync(place(random.oneOf(names)))
  if (random.below(3) > 0) return
  const bytes = Buffer.alloc(largeBytes)
  for (let at = 0; at < largeBytes; at += 4) bytes.writeUInt32LE(random.below(2 ** 32), at)
  const large = place(`large-${random.below(2)}`)
  const before = existsSync(large) && random.below(2) === 0 ? readFileSync(large) : bytes
  // Half of the new ones differ from the earlier ones in a part only.
  if (before !== bytes) bytes.copy(before, random.below(largeBytes), 0, 1000)
  writeFileSync(large, before)
}

/** Returns what the client does next. Both projects are pushed first. */
function actionOf(
  { random, shop, placed }: Stage,
  lives: ReadonlyMap<string, string[]>,
  live: Deployment | null
): { kind: 'push' | 'promote'; project: Project; words: string[] } {
  const push = ['push', '--incremental', 'auto', '--out', site, '--project']
  // What an undo brought back, or a kill made a failure, is no release that can be promoted.
  const mayPromote = live?.status === 'success' && !live.exact
  const kind = lives.get(shop.id)?.length ? random.below(mayPromote ? 6 : 5) : 0
  if (kind < 4) return { kind: 'push', project: shop, words: [...push, shop.id] }
  if (kind === 4) return { kind: 'push', project: placed, words: [...push, placed.id] }
  return { kind: 'promote', project: placed, words: ['promote', shop.id, placed.id, '--yes'] }
}

function runClient({ base, relay, server, shop, placed }: Stage, words: readonly string[]): Client {
  const { token } = words.includes(placed.id) ? placed : shop
  const child = spawn(...bare(process.execPath, words), {
    cwd: base,
    env: bareEnvironment(base, {
      SVC_HOME: join(base, 'client'),
      TMPDIR: join(base, 'client-tmp'),
      SVC_SERVER_URL: relay.url,
      SVC_DEPLOY_TOKEN: token,
      SVC_TOKEN: server.adminToken,
      CI: ''
    }),
    stdio: ['ignore', 'pipe', 'pipe']
  })
  let said = ''
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', text => (said += text))
  return { child, ended: new Promise(resolve => child.once('close', code => resolve({ code, said }))) }
}

/** Lets a client run while one or two faults come. Returns how it ended, once everything is up again. */
async function faulted(
  t: { teardown(work: () => unknown): void },
  stage: Stage,
  words: readonly string[]
): Promise<{ ends: { code: number | null; said: string }; fault: string }> {
  const { random, relay, nodeRelay, count, base } = stage
  const fault = random.oneOf([
    ...(['cut', 'cut', 'cut of answers', 'cut', 'client killed', 'client killed at a call'] as const),
    ...(['server killed', 'server killed, archive kept', 'cut and server killed', 'node killed', 'node cut'] as const)
  ])
  const atCall = fault === 'client killed at a call' ? [killedSvc, `${1 + random.below(clientCalls)}`] : null
  const most = random.oneOf([700, 1500, 4000, 20_000, 1_500_000])
  const moment = 1 + random.below(random.oneOf([300, 800, 1500]))
  let [happened, isOver] = [0, false]
  let restarted = Promise.resolve()
  async function kill(): Promise<void> {
    happened++
    await stage.server.stop('SIGKILL')
    stage.server = await startServer(t, base)
  }
  if (fault.startsWith('cut')) {
    relay[fault === 'cut of answers' ? 'leftOfAnswers' : 'left'] = 1 + random.below(most)
    relay.onCut = async () => {
      happened++
      if (fault === 'cut and server killed') await (restarted = kill())
      if (!isOver && random.below(3) === 0)
        relay[random.oneOf(['left', 'leftOfAnswers'] as const)] = 1 + random.below(most)
    }
  }
  const kept = new Set(archivesOf(stage))
  const client = runClient(stage, [...(atCall ?? [svcPath]), ...words])
  const over = client.ended.then(() => void (isOver = true))
  if (fault === 'server killed, archive kept') {
    while (!isOver && archivesOf(stage).every(name => kept.has(name))) await new Promise(setImmediate)
    await sleep(random.oneOf([0, 0, 1, 3, 10]))
    await kill()
  } else if (!fault.startsWith('cut') && atCall === null) {
    await Promise.race([sleep(moment), over])
    if (fault === 'server killed') await kill()
    else if (fault === 'node cut') nodeRelay.cut()
    else if (fault === 'node killed') await stage.agent.stop('SIGKILL')
    else if (client.child.exitCode === null) client.child.kill('SIGKILL')
    if (fault !== 'server killed' && !isOver) happened++
    if (fault === 'node killed') stage.agent = await startAgentProcess(t, base)
  }
  const ends = await client.ended
  relay.left = relay.leftOfAnswers = Infinity
  relay.onCut = async () => {}
  // The last cut may have come after everything was said.
  await restarted
  if (atCall !== null && ends.code === null) happened++
  for (let n = 0; n < happened; n++) count('faults')
  return { ends, fault }
}

/** Returns the names of the kept archives. */
function archivesOf({ server }: Stage): string[] {
  return readdirSync(join(server.home, 'deployments')).filter(name => /\.(zip|index)$/.test(name))
}

/** Waits until the node is connected. */
async function restored({ server }: Stage): Promise<void> {
  await until(async () => {
    const { nodes } = await server.api<{ nodes: Array<{ isConnected: boolean }> }>('GET', '/api/nodes')
    return nodes.every(({ isConnected }) => isConnected)
  })
}

const all = (server: ServeProcess, id: string): Promise<Deployment[]> =>
  server.api('GET', `/api/logs?projectId=${id}&limit=1000&output=none`)

/** Longer than a server needs to notice that a client is gone, and between two steps of an upload. */
const quietMs = 120

/**
 * Waits until nothing arrives, is queued or is running, and returns all deployments. What a client sent before it was
 * killed still becomes one.
 */
async function settled({ server }: Stage, { id }: Project): Promise<Deployment[]> {
  let last = ''
  return await until(async () => {
    const rows = await all(server, id)
    const inWork = readdirSync(join(server.home, 'tmp')).filter(name => !isOfPieces(`/tmp/${name}`))
    const seen = rows.map(row => `${row.id} ${row.status} ${row.hasArtifact}`).join()
    const isQuiet = inWork.length === 0 && seen === last && !/queued|running/.test(seen)
    last = seen
    if (!isQuiet) await sleep(quietMs)
    return isQuiet && rows
  })
}

/** Returns the deployment that is in place. The hub does not number what is on nodes. */
async function newestPlaced({ server, placed: onNode }: Stage, { id }: Project): Promise<Deployment | null> {
  const rows = await all(server, id)
  if (id === onNode.id) return rows.find(({ status }) => status === 'success') ?? null
  return rows.reduce<Deployment | null>(
    (last, row) => (row.placed !== null && Number(row.placed) > Number(last?.placed ?? -1) ? row : last),
    null
  )
}

/** Takes the last deployment back. Returns how the target differs from what it had before. */
async function undo(stage: Stage, wanted: string[]): Promise<string[]> {
  const { server, shop, count } = stage
  await server.api('POST', `/api/projects/${shop.id}/undo`)
  await settled(stage, shop)
  count('undos')
  return differences('undo', wanted, filesOf(targetOf(stage, shop)))
}

interface Looking {
  project: Project
  rows: readonly Deployment[]
  contents: ReadonlyMap<string, string[]>
  acknowledged: ReadonlyMap<string, Project>
}

/** Returns what is lost, unreadable or left over. */
async function broken(stage: Stage, { rows, contents, acknowledged, project }: Looking): Promise<string[]> {
  const { server, base, placed, shop } = stage
  const found: string[] = []
  const ids = new Map(rows.map(row => [row.id, row]))
  for (const [id, of] of acknowledged)
    if (of.id === project.id && ids.get(id)?.status !== 'success')
      found.push(`${id} was acknowledged, and is ${ids.get(id)?.status ?? 'gone'}`)
  for (const { id, hasArtifact, exact, treeSha256, archiveSha256 } of rows) {
    if (!hasArtifact || exact) continue
    const path = join(server.home, 'deployments', `${id}.zip`)
    const archive = await openKept(path, anyArchive).catch((error: Error) => error)
    if (archive instanceof Error) {
      found.push(`${id} cannot be read: ${archive.message}`)
      continue
    }
    try {
      const entries = await entriesOfArchive(archive)
      const lines = entries.map(({ path: at, sha256: digest }) => `${at} ${digest}`).sort()
      const wanted = contents.get(treeSha256 ?? '')
      if (wanted !== undefined) found.push(...differences(id, wanted, lines))
      const whole = join(base, 'whole.zip')
      await writeWhole(path, whole)
      if ((await sha256OfFile(whole)) !== archiveSha256) found.push(`${id}: its bytes are not those of its record`)
      rmSync(whole)
    } finally {
      archive.close()
    }
  }
  const named = new Map(
    [...rows, ...(await settled(stage, project.id === shop.id ? placed : shop))].map(row => [row.id, row])
  )
  const places = { home: server.home, sites: join(base, 'sites'), proofs: '', temporary: join(base, 'server-tmp') }
  const strays = findStrays({ places, lost: new Set() }, named).filter(name => !isOfPieces(name) && !isOfFleet(name))
  found.push(...strays.map(name => `left: ${name}`))
  return found
}

/** An upload in pieces waits a day to be continued. */
const isOfPieces = (path: string): boolean => /\/tmp\/[\w-]{43}\.(part|json)$/.test(path)
/** What waits for a node is encrypted. */
const isOfFleet = (path: string): boolean => path.endsWith('/variables.key')

/** Returns the files of a directory with their digests. */
function filesOf(directory: string): string[] {
  if (!existsSync(directory)) return []
  return readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter(entry => entry.isFile())
    .map(({ parentPath, name }) => {
      const path = join(parentPath, name)
      return `${path.slice(directory.length + 1)} ${sha256(readFileSync(path)).toString('hex')}`
    })
    .sort()
}

function differences(what: string, wanted: readonly string[], found: readonly string[]): string[] {
  const [a, b] = [new Set(wanted), new Set(found)]
  return [
    ...wanted.filter(line => !b.has(line)).map(line => `${what}: missing ${line.slice(0, 40)}`),
    ...found.filter(line => !a.has(line)).map(line => `${what}: there is ${line.slice(0, 40)}`)
  ].slice(0, 8)
}
