import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { realDisk } from '../../lib/core/store/disk.js'
import { recover } from '../../lib/core/store/recovery.js'
import { loadSqlite } from '../../lib/core/store/memory.js'
import { endOfPrefix } from '../../lib/cluster/etcd/client.js'
import { digestOf } from './database-digest.js'
import { startEtcd, type EtcdCluster, type Member } from './etcd.js'
import { startHubs, type HubAnswer, type HubProcess, type HubProcesses } from './hub-processes.js'
import { faultOfHistory, type RegisterOperation } from './linearizable.js'
import { createRandom, type Random } from './random.js'
import { defaultWithinMs, until } from './until.js'

/*
 * Writers on a cluster whose leader and whose members of etcd are killed (SIGKILL), in turn, and started again. Each write
 * sets a register to a new value and counts in the same transaction, so a lost or doubled write shows in the counts, and
 * the order of everything in the histories of the registers.
 *
 * After each third of the time, etcd is set back to a snapshot: first to one of a moment ago, and then to that of the beginning,
 * which lacks almost everything, and a log that was begun again. The hubs must refuse everything, and go on after the cure of
 * docs/fleet.md.
 */

export interface ClusterSoakOptions {
  seconds: number
  seed: number
  writers: number
  /** Time from one kill to the next. */
  everyMs: number
  say: (line: string) => void
}

export interface ClusterReport {
  kills: { hubs: number; members: number }
  /** Numbers of operations by their outcome. */
  acknowledged: number
  refused: number
  unknown: number
  /** Time from each kill to the next acknowledged operation that began after it. */
  outagesMs: { hubs: number[]; members: number[] }
  /** What was found; nothing is good. */
  lost: string[]
  doubled: string[]
  notLinearizable: string[]
  unequal: string[]
  /** Acknowledged between the return of an older etcd and the cure. */
  overHole: string[]
}

interface Kill {
  atMs: number
  kind: 'hubs' | 'members'
}

const registers = 40
const readsOf100 = 30
const swapsOf100 = 25
/** Time until what was killed is started again, as a share of the time between kills. */
const downShare = 0.5
const pauseMs = 25
const aroundMs = defaultWithinMs

/** Runs for this many seconds, then waits until all is up, and looks at everything. */
export async function soakCluster(options: ClusterSoakOptions): Promise<ClusterReport> {
  const directory = mkdtempSync(join(tmpdir(), 'svc-cluster-soak-'))
  const etcd = await startEtcd({ size: 3 })
  const stop = new AbortController()
  let hubs: HubProcesses | null = null
  try {
    hubs = await startHubs({ etcd: etcd.options, directory, size: 3 })
    return await soak({ ...options, etcd, hubs, directory }, stop)
  } finally {
    // Also after a failure: a writer that continues keeps the program alive.
    stop.abort()
    await hubs?.close()
    await etcd.close()
    rmSync(directory, { recursive: true, force: true })
  }
}

type Running = ClusterSoakOptions & { etcd: EtcdCluster; hubs: HubProcesses; directory: string }

async function soak(running: Running, stop: AbortController): Promise<ClusterReport> {
  const { seconds, seed, writers, etcd, hubs, directory, say } = running
  const report: ClusterReport = {
    kills: { hubs: 0, members: 0 },
    acknowledged: 0,
    refused: 0,
    unknown: 0,
    outagesMs: { hubs: [], members: [] },
    lost: [],
    doubled: [],
    notLinearizable: [],
    unequal: [],
    overHole: []
  }
  const clients = Array.from({ length: writers }, (_, at) => createWriter(at, seed, running))
  const working = clients.map(client => client.work(stop.signal))
  await until(() => clients.some(({ acknowledgedAt }) => acknowledgedAt.length > 0), { what: 'a first write' })
  const beginning = await keep(running, 'beginning')
  const fromMs = performance.now()
  const third = (n: number): number => fromMs + (n * seconds * 1000) / 3
  const kills = await killInTurn(running, third(1))
  const holes = [await setBack(running, clients, await keep(running, 'recent'))]
  kills.push(...(await killInTurn(running, third(2))))
  holes.push(await setBack(running, clients, beginning))
  kills.push(...(await killInTurn(running, third(3))))
  stop.abort()
  await Promise.all(working)

  await etcd.ready()
  const leader = await hubs.leader()
  await until(async () => (await leader.ask('/write', { key: 'last', value: 'x' })).status === 200, {
    withinMs: aroundMs
  })
  const { sequence } = (await leader.ask('/content')).body
  for (const hub of hubs.hubs) {
    await until(async () => (await hub.ask('/content')).body.sequence === sequence, { what: `${hub.name} to follow` })
  }
  await compare(running, report)
  const counts = (await leader.ask('/counts')).body
  for (const client of clients) client.check(Number(counts[`count-${client.name}`] ?? 0), report)
  for (const [name, history] of historiesOf(clients)) {
    const fault = faultOfHistory(history, null)
    if (fault !== null) report.notLinearizable.push(`register ${name}: ${fault}`)
  }
  const acknowledgedAt = clients.flatMap(client => client.acknowledgedAt).sort((a, b) => a.call - b.call)
  for (const { fromMs, toMs } of holes) {
    const found = acknowledgedAt.filter(({ call, end }) => call > fromMs && end < toMs)
    report.overHole.push(...found.map(({ call }) => `${Math.round(call - fromMs)} ms after etcd was killed`))
  }
  for (const { kind, atMs } of kills) {
    report.kills[kind]++
    // A loop: so many acknowledgements do not fit into the arguments of one call.
    let next = Infinity
    for (const { call, end } of acknowledgedAt) if (call >= atMs) next = Math.min(next, end)
    if (Number.isFinite(next)) report.outagesMs[kind].push(next - atMs)
  }
  say(`${directory}: ${sequence} transactions in the log`)
  return report
}

/** Kills the leader and a member of etcd in turn. Returns when, after everything was started again. */
async function killInTurn({ etcd, hubs, seed, everyMs, say }: Running, untilMs: number): Promise<Kill[]> {
  const random = createRandom(seed)
  const kills: Kill[] = []
  const starting: Array<Promise<unknown>> = []
  for (let turn = 0; performance.now() < untilMs; turn++) {
    const nextMs = performance.now() + everyMs
    const isHub = turn % 2 === 0
    const victim: HubProcess | Member = isHub ? await leaderOrAny(hubs, random) : await memberOf(etcd, random)
    kills.push({ kind: isHub ? 'hubs' : 'members', atMs: performance.now() })
    await victim.kill()
    await sleep(everyMs * downShare)
    starting.push(Promise.resolve(victim.start()).catch((error: Error) => say(error.message)))
    await sleep(Math.max(0, nextMs - performance.now()))
  }
  await Promise.all(starting)
  return kills
}

/** The time between the end of etcd and the cure. */
interface Hole {
  fromMs: number
  toMs: number
}

interface Snapshot {
  name: string
  /** A number of a write that it has. */
  sequence: number
}

async function keep({ etcd, hubs }: Running, name: string): Promise<Snapshot> {
  const sequence = await sequenceOf(await hubs.leader())
  await etcd.ready()
  await etcd.keep(name)
  return { name, sequence }
}

/** Sets etcd back to a snapshot while all hubs run, waits until each says so, and cures them as docs/fleet.md says. */
async function setBack(running: Running, clients: readonly Writer[], { name, sequence }: Snapshot): Promise<Hole> {
  const { etcd, hubs, directory, say } = running
  await acknowledgedAfter(clients, performance.now())
  const reached = await sequenceOf(await hubs.leader())
  for (const hub of hubs.hubs)
    await until(async () => (await sequenceOf(hub)) >= reached, { what: `${hub.name} to follow` })
  await Promise.all(etcd.members.map(member => member.kill()))
  const fromMs = performance.now()
  await etcd.goBack(name)
  for (const hub of hubs.hubs) {
    const role = async () => (await hub.ask('/role')).body
    await until(async () => (await role())['reason'] === 'log_older', { what: `log_older of ${hub.name}` })
  }
  const sequences = await Promise.all(hubs.hubs.map(sequenceOf))
  const toMs = performance.now()
  say(`set back by ${Math.max(...sequences) - sequence} writes; all hubs said so after ${Math.round(toMs - fromMs)} ms`)

  const first = hubs.hubs[sequences.indexOf(Math.max(...sequences))] as HubProcess
  await Promise.all(hubs.hubs.map(hub => hub.stop()))
  const range = ['/svc/', endOfPrefix('/svc/')].map(key => Buffer.from(key).toString('base64'))
  await etcd.ask('/v3/kv/deleterange', { key: range[0], range_end: range[1] })
  await first.start(undefined, true)
  for (const hub of hubs.hubs.filter(hub => hub !== first)) {
    rmSync(join(directory, hub.name), { recursive: true })
    mkdirSync(join(directory, hub.name))
    await hub.start()
  }
  await acknowledgedAfter(clients, performance.now())
  return { fromMs, toMs }
}

async function sequenceOf(hub: HubProcess): Promise<number> {
  return (await hub.ask('/role')).body.sequence as number
}

async function acknowledgedAfter(clients: readonly Writer[], fromMs: number): Promise<void> {
  const found = (): boolean => clients.some(({ acknowledgedAt }) => (acknowledgedAt.at(-1)?.call ?? 0) > fromMs)
  await until(found, { withinMs: aroundMs, what: 'an acknowledged operation' })
}

async function leaderOrAny({ hubs }: HubProcesses, random: Random): Promise<HubProcess> {
  for (const hub of hubs.filter(({ isRunning }) => isRunning)) {
    const role = await hub.ask('/role').catch(() => null)
    if (role?.body['kind'] === 'leader') return hub
  }
  return random.oneOf(hubs.filter(({ isRunning }) => isRunning))
}

/** The member that leads etcd, or any. */
async function memberOf(etcd: EtcdCluster, random: Random): Promise<Member> {
  const lead = random.below(2) === 0 ? await etcd.leader() : -1
  return etcd.members[lead] ?? random.oneOf(etcd.members)
}

type Outcome = 'acknowledged' | 'refused' | 'unknown'

interface Writer {
  name: string
  acknowledgedAt: Array<{ call: number; end: number }>
  history: Array<[register: string, operation: RegisterOperation]>
  work(signal: AbortSignal): Promise<void>
  /** Compares what it counted with what the database counted. */
  check(counted: number, report: ClusterReport): void
}

function createWriter(at: number, seed: number, { hubs: { hubs } }: Running): Writer {
  const name = `w${at}`
  const random = createRandom(seed * 1000 + at)
  const acknowledgedAt: Writer['acknowledgedAt'] = []
  const history: Writer['history'] = []
  const seenLast = new Map<string, string | null>()
  const numbers: Record<Outcome, number> = { acknowledged: 0, refused: 0, unknown: 0 }
  let counted = 0
  let uncertain = 0
  let hint = at % hubs.length

  async function once(n: number): Promise<Outcome> {
    const register = `r${random.below(registers)}`
    const dice = random.below(100)
    const kind = dice < readsOf100 ? 'read' : dice < readsOf100 + swapsOf100 ? 'swap' : 'write'
    const value = `${name}-${n}`
    const from = seenLast.get(register) ?? null
    const query = {
      key: register,
      ...(kind !== 'read' && { value, counter: name }),
      ...(kind === 'swap' && { from: from ?? '' })
    }
    const hub = hubs[hint] as HubProcess
    const call = performance.now()
    const answer = await hub.ask(kind === 'read' ? '/read' : '/write', query).catch((error: unknown) => error as Error)
    const end = performance.now()
    const outcome = outcomeOf(answer)
    numbers[outcome]++
    if (outcome !== 'acknowledged') hint = (hint + 1) % hubs.length
    if (outcome === 'refused') return outcome
    const seen = outcome === 'acknowledged' ? ((answer as HubAnswer).body.seen ?? null) : undefined
    history.push([
      register,
      {
        kind,
        call,
        end: outcome === 'unknown' ? null : end,
        value: kind === 'read' ? null : value,
        ...(kind === 'swap' && { from }),
        ...(kind !== 'write' && seen !== undefined && { seen })
      }
    ])
    if (outcome === 'unknown') {
      uncertain += kind === 'read' ? 0 : 1
      return outcome
    }
    acknowledgedAt.push({ call, end })
    const isDone = kind === 'write' || (kind === 'swap' && seen === from)
    if (isDone) counted++
    seenLast.set(register, isDone ? value : (seen ?? null))
    return outcome
  }

  return {
    name,
    acknowledgedAt,
    history,
    async work(signal) {
      for (let n = 0; !signal.aborted; n++) {
        if ((await once(n)) !== 'acknowledged') await sleep(pauseMs)
      }
    },
    check(inDatabase, report) {
      report.acknowledged += numbers.acknowledged
      report.refused += numbers.refused
      report.unknown += numbers.unknown
      const said = `${name}: ${counted} acknowledged, ${uncertain} unknown, ${inDatabase} in the database`
      if (inDatabase < counted) report.lost.push(said)
      if (inDatabase > counted + uncertain) report.doubled.push(said)
    }
  }
}

const refusals = ['not_leader', 'no_leader', 'shutting_down']

function outcomeOf(answer: HubAnswer | Error): Outcome {
  if (answer instanceof Error) {
    // Nothing listened, so nothing was done.
    return (answer as NodeJS.ErrnoException).code === 'ECONNREFUSED' ? 'refused' : 'unknown'
  }
  if (answer.status === 200) return 'acknowledged'
  return refusals.includes(answer.body.code ?? '') ? 'refused' : 'unknown'
}

function historiesOf(clients: readonly Writer[]): Map<string, RegisterOperation[]> {
  const histories = new Map<string, RegisterOperation[]>()
  for (const [register, operation] of clients.flatMap(({ history }) => history)) {
    histories.set(register, [...(histories.get(register) ?? []), operation])
  }
  return histories
}

/** Compares the memory of all hubs, and then what they have on their disks. */
async function compare({ hubs: { hubs }, directory }: Running, report: ClusterReport): Promise<void> {
  const inMemory = new Map<string, string[]>()
  for (const hub of hubs) {
    const digest = String((await hub.ask('/content')).body['digest'])
    inMemory.set(digest, [...(inMemory.get(digest) ?? []), hub.name])
  }
  if (inMemory.size > 1) report.unequal.push(`in memory: ${JSON.stringify([...inMemory])}`)
  for (const hub of hubs) await hub.ask('/checkpoint')
  const sqlite = await loadSqlite()
  for (const hub of hubs) {
    const databasePath = join(directory, hub.name, 'svc.db')
    const { memory } = recover({ sqlite, disk: realDisk, databasePath, redoPath: `${databasePath}.redo` })
    const digest = digestOf(memory)
    memory.close()
    if (!inMemory.has(digest)) report.unequal.push(`svc.db of ${hub.name} is not its memory`)
  }
}
