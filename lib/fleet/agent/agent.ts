/*
 * The agent: keeps the stream from the hub open, does what it orders, and reports. It is a part of a whole svc, which
 * also works without the hub: it serves, reverts by itself, and takes local pushes.
 */
import { join } from 'node:path'
import { type Clock, machineTimeOf } from '../../base/clock.js'
import { freeBytes } from '../../base/files.js'
import type { Ids } from '../../base/digests.js'
import { reasonOf, Refusal } from '../../base/errors.js'
import type { Caller } from '../../http/outgoing/caller.js'
import { type DesiredLine, type ReleaseDocument, reportEveryMs, type AgentReport } from '../../model/fleet-wire.js'
import type { Store, Reader } from '../../core/store/database.js'
import { liveDeployment } from '../../core/store/tables/deployments.js'
import { noResult } from './duty-works.js'
import { answerOf } from '../duty.js'
import { type ConnectionWaits, HubClient, keepConnected } from './hub-client.js'
import { Duties } from './duties.js'
import { createKeyring } from './from-hub.js'
import { addressesOf, type AgentKey, type Identity, writeIdentity } from './identity.js'
import { type AdoptedFields, hubActor, type LocalDeployer, type LocalProjects, type LocalVariables } from './swap.js'
import { Releases } from './releases.js'
import { setTimeout as sleep } from 'node:timers/promises'
import { fleetLimits } from '../../model/node.js'
import type { DeploymentRow } from '../../model/deployment.js'
import { findHubDeployment } from '../../core/store/tables/fleet.js'

/** Times of an agent, in milliseconds. Tests shorten them. */
export interface AgentTimes {
  reportEveryMs: number
  /** How often edited files are searched for. */
  driftEveryMs: number
  waits: Partial<ConnectionWaits>
}

/** What relays the requests of the hub's users. */
export interface AgentRelay {
  take(line: Extract<DesiredLine, { type: 'relay' | 'input' }>): void
  /** The stream has ended: what it asked for is of no use any more. */
  endAll(): void
}

export interface AgentNeeds {
  /** The data directory. */
  home: string
  identity: Identity
  key: AgentKey
  createCaller(address: string): Caller
  store: Store
  clock: Clock
  ids: Ids
  version: string
  deployer: LocalDeployer
  projects: LocalProjects
  variables: LocalVariables
  /** Creates the relay; absent: requests are not relayed. */
  createRelay?: ((client: HubClient) => AgentRelay) | undefined
  random?(): number
  times?: Partial<AgentTimes>
  info(line: string): void
  warn(line: string): void
  log(message: string, error?: unknown): void
}

export type Agent = ReturnType<typeof createAgent>

const defaultTimes = { reportEveryMs, driftEveryMs: 10 * 60_000, waits: {} }
const sweepEveryMs = 60 * 60_000

function createParts(needs: AgentNeeds) {
  const { home, key, store, createCaller, deployer, warn, log } = needs
  const { nodeId } = needs.identity
  const kept = keepIdentity(needs)
  const keyring = createKeyring(needs.identity.hubKey, hubKey => kept.learn({ hubKey }))
  const client = new HubClient({ nodeId, key, keyring, hubs: addressesOf(needs.identity), createCaller })
  const releases = new Releases({
    directory: join(home, 'prepared'),
    client,
    keyring,
    earlierArchive(projectId) {
      const id = liveDeployment(store, projectId)?.id
      return id === undefined ? null : join(home, 'deployments', `${id}.zip`)
    }
  })
  const live = createLive({ store, deployer })
  const asides = createAsides(log)

  const duties = new Duties({
    ...needs,
    nodeId,
    async prepare(duty, signal) {
      const release = await releases.fetch(duty, signal)
      await adoptProject(needs, release.document)
      const { projectId, offered } = release.document
      await deployer.preflight({ projectId, archivePath: release.archivePath, offered })
      return release
    },
    done: ({ release }) => asides.add('Cannot remove a prepared archive', releases.remove(release)),
    changed: (projectId, options) => reports.changed(projectId, options),
    async removed(projectId) {
      await needs.projects.remove(projectId, hubActor).catch((error: unknown) => {
        if (!(error instanceof Refusal && error.kind === 'not_found')) throw error
      })
    }
  })

  const reports = createReports({
    send: (body, signal) => client.json({ method: 'POST', path: '/api/agent/reports', body, signal }),
    facts: async () => ({ version: needs.version, freeBytes: await freeBytes(home) }),
    answersOf: projectId => answersOf(duties, projectId),
    liveOf: projectId => (duties.find(projectId) === undefined ? null : live.of(projectId)),
    everyMs: needs.times?.reportEveryMs ?? defaultTimes.reportEveryMs,
    failed: error => warn(`Cannot report to the hub: ${reasonOf(error)}`)
  })
  return { kept, keyring, client, releases, live, asides, duties, reports }
}

/** Creates an agent, which begins at once. */
export function createAgent(needs: AgentNeeds) {
  const { random = Math.random } = needs
  const times = { ...defaultTimes, ...needs.times }
  const parts = createParts(needs)
  const { kept, keyring, client, live, asides, duties, reports } = parts
  const relay = needs.createRelay?.(client)
  const stopping = new AbortController()
  const projectIds = (): string[] => [...duties.all()].map(({ projectId }) => projectId)

  function take(line: DesiredLine): void {
    switch (line.type) {
      case 'order':
        return duties.take(line)
      case 'unplaced':
        return duties.unplaced(line.projectId)
      case 'welcome':
        return welcome(line.hubs)
      case 'relay':
      case 'input':
        return relay?.take(line)
    }
  }

  function welcome(hubs: string[]): void {
    if (hubs.join() === (kept.identity.named ?? []).join()) return
    kept.learn({ named: hubs })
    client.setHubs(addressesOf(kept.identity))
  }

  let reporting: AbortController | null = null
  let reported: Promise<unknown> = Promise.resolve()
  const connected = keepConnected(
    {
      client,
      keyring,
      instance: needs.ids.token(),
      take,
      onOpen() {
        reporting = new AbortController()
        reported = reports.run(projectIds(), reporting.signal)
      },
      onEnd() {
        reporting?.abort()
        relay?.endAll()
      },
      random,
      waits: times.waits,
      info: needs.info,
      warn: needs.warn
    },
    stopping.signal
  )
  duties.start()

  /** Searches for edited files, one project after the other. */
  async function searchDrift(): Promise<void> {
    for (const projectId of projectIds()) {
      if (stopping.signal.aborted) return
      const hasChanged = await live.search(projectId, stopping.signal).catch(() => false)
      if (hasChanged) reports.changed(projectId)
    }
  }

  const sweepAside = (): void => asides.add('Cannot remove old prepared archives', sweepReleases(parts, needs.clock))
  const searchAside = (): void => asides.add('Cannot search for edited files', searchDrift())
  sweepAside()
  const drift = setInterval(searchAside, times.driftEveryMs * (0.75 + random() / 2)).unref()
  const sweeping = setInterval(sweepAside, sweepEveryMs).unref()

  return {
    get identity() {
      return kept.identity
    },

    /** Notes that a deployment of the node has ended: one of the hub, or a local push. */
    deploymentEnded(projectId: string): void {
      if (duties.find(projectId) !== undefined) reports.changed(projectId)
    },

    /** Leaves the hub. Resolves when nothing is in progress. */
    async stop(): Promise<void> {
      clearInterval(drift)
      clearInterval(sweeping)
      stopping.abort()
      reporting?.abort()
      relay?.endAll()
      await Promise.all([connected, reported, duties.stop(), kept.saved()])
      await asides.ended()
      client.close()
    }
  }
}

/** Creates the set of what runs beside the orders of the hub. A failure is logged. */
function createAsides(log: AgentNeeds['log']) {
  const asides = new Set<Promise<void>>()
  return {
    add(what: string, work: Promise<unknown>): void {
      const going = work.then(
        () => void asides.delete(going),
        error => {
          asides.delete(going)
          log(what, error)
        }
      )
      asides.add(going)
    },
    ended: (): Promise<unknown> => Promise.all(asides)
  }
}

/** Keeps the identity of the agent, in memory at once and then on the disk. */
function keepIdentity({ home, identity: first, log }: Pick<AgentNeeds, 'home' | 'identity' | 'log'>) {
  let identity = first
  let saving: Promise<unknown> = Promise.resolve()
  return {
    get identity() {
      return identity
    },
    learn(change: Partial<Identity>): void {
      identity = { ...identity, ...change }
      saving = saving
        .then(() => writeIdentity(home, identity))
        .catch(error => log('Cannot store the identity of the agent', error))
    },
    saved: (): Promise<unknown> => saving
  }
}

/** Returns what a node answers to the orders for a project. */
function answersOf(duties: Duties, projectId: string) {
  const duty = duties.find(projectId)
  const answer = duty === undefined ? null : answerOf(duty.state)
  const ignored = duties.ignored(projectId)
  const { failedStep, output, tookMs } = duty ?? noResult
  return [
    ...(answer === null ? [] : [{ projectId, ...answer, failedStep, output, tookMs }]),
    ...(ignored === undefined ? [] : [{ projectId, ...ignored, answer: 'ignored' as const, ...noResult }])
  ]
}

/** Removes prepared archives that are old and that no duty needs. */
async function sweepReleases({ releases, duties }: ReturnType<typeof createParts>, clock: Clock): Promise<void> {
  const swaps = [...duties.all()].filter(({ state }) => state.action === 'swap')
  const used = new Set(swaps.map(({ release }) => release.archiveSha256))
  await releases.sweep(machineTimeOf(clock), sha256 => used.has(sha256))
}

/* Brings the record of a project on a node up to date with the release that is about to be prepared. */

/**
 * If the hub allows client scripts, the setting of the node decides: a node may forbid more than its hub, never allow more.
 */
const allowing = 'allowClientScripts'

export interface AdoptionNeeds {
  projects: LocalProjects
  variables: LocalVariables
}

/** Makes the project of a release one of the node, with its variables. Refuses as `projects` and `variables` do. */
export async function adoptProject({ projects, variables }: AdoptionNeeds, document: ReleaseDocument): Promise<void> {
  const { projectId } = document
  await projects.adopt(projectId, adoptedFields(document), hubActor)
  const wanted = [...document.variables].sort((a, b) => (a.name < b.name ? -1 : 1))
  const present = await variables.open(projectId).catch(() => null)
  // Nothing is written, and nothing is added to the audit log, if nothing has changed.
  const known = present?.map(({ name, value, secret }) => ({ name, value, secret }))
  if (known === undefined || JSON.stringify(known) !== JSON.stringify(wanted.map(plain)))
    await variables.replace(projectId, wanted, hubActor)
}

function plain({ name, value, secret }: ReleaseDocument['variables'][number]) {
  return { name, value, secret }
}

/** Returns the fields of the project that a release brings. */
export function adoptedFields({ projectName, env, deployPath, policy, project }: ReleaseDocument): AdoptedFields {
  const fields: AdoptedFields = { ...project, name: projectName, env, deployPath, policy }
  return project[allowing] === true ? { ...fields, [allowing]: null } : fields
}

/*
 * Tells the hub what has changed: answers to orders, and what is in place. Changes that come together are one report. A
 * report is repeated until the hub has taken it; the hub ignores what it knows already. Without changes, a report says
 * now and then that the node is there.
 */

export interface ReportsNeeds {
  send(report: AgentReport, signal: AbortSignal): Promise<unknown>
  facts(): Promise<Pick<AgentReport, 'version' | 'freeBytes'>>
  answersOf(projectId: string): AgentReport['answers']
  /** Returns what is in place; null: the project is not one of the hub. */
  liveOf(projectId: string): AgentReport['placements'][number] | null
  everyMs: number
  /** Waits between attempts to send a report, in ms. The last one is repeated. */
  retriesMs?: readonly number[]
  /** Called when a second attempt in a row has failed. */
  failed(error: unknown): void
}

const soonMs = 250
const defaultRetriesMs = [250, 1000, 5000]
/** What a report has besides its answers and placements. */
const frameBytes = 256

export function createReports(needs: ReportsNeeds) {
  const { send, facts, everyMs, retriesMs = defaultRetriesMs, failed } = needs
  /** What has changed, and how often. */
  const dirty = new Map<string, number>()
  let wake = (): void => {}
  let isHurried = false
  let soon: NodeJS.Timeout | undefined

  function hurry(): void {
    clearTimeout(soon)
    soon = undefined
    isHurried = true
    wake()
  }

  function changed(projectId: string, options?: { soon: boolean }): void {
    dirty.set(projectId, (dirty.get(projectId) ?? 0) + 1)
    if (options?.soon !== true) hurry()
    else soon ??= setTimeout(hurry, soonMs).unref()
  }

  /** Waits until something has changed, or a report is due. */
  async function due(signal: AbortSignal): Promise<void> {
    if (isHurried || signal.aborted) return
    await new Promise<void>(resolve => {
      const timer = setTimeout(done, everyMs)
      function done(): void {
        clearTimeout(timer)
        signal.removeEventListener('abort', done)
        wake = () => {}
        resolve()
      }
      wake = done
      signal.addEventListener('abort', done, { once: true })
    })
  }

  /** Returns a report about as many projects as fit into one, and what it is about. */
  async function compose(): Promise<{ report: AgentReport; about: Map<string, number> }> {
    const report: AgentReport = { ...(await facts()), answers: [], placements: [] }
    const about = new Map<string, number>()
    let bytes = frameBytes
    for (const [projectId, count] of dirty) {
      const answers = needs.answersOf(projectId).map(shortened)
      const live = needs.liveOf(projectId)
      for (const each of [...answers, live]) bytes += bytesOf(each)
      if (bytes > fleetLimits.reportBytes && about.size > 0) break
      report.answers.push(...answers)
      if (live !== null) report.placements.push(live)
      about.set(projectId, count)
    }
    return { report, about }
  }

  async function sendOne(signal: AbortSignal): Promise<void> {
    clearTimeout(soon)
    soon = undefined
    isHurried = false
    const { report, about } = await compose()
    await send(report, signal)
    for (const [projectId, count] of about) if (dirty.get(projectId) === count) dirty.delete(projectId)
    // What did not fit, or has changed meanwhile.
    if (dirty.size > 0 && soon === undefined) isHurried = true
  }

  return {
    /** Notes that a project has changed. `soon`: a report within a quarter of a second is early enough. */
    changed,
    /** Sends reports while the signal is not aborted: first what `projectIds` have. Never rejects. */
    async run(projectIds: Iterable<string>, signal: AbortSignal): Promise<void> {
      for (const projectId of projectIds) changed(projectId)
      hurry()
      let failures = 0
      while (!signal.aborted) {
        await due(signal)
        if (signal.aborted) return
        try {
          await sendOne(signal)
          failures = 0
        } catch (error) {
          if (signal.aborted) return
          // Once is no news: the next attempt follows at once.
          if (failures === 1) failed(error)
          const ms = retriesMs[Math.min(failures++, retriesMs.length - 1)] as number
          await sleep(ms, undefined, { signal }).catch(() => {})
          isHurried = true
        }
      }
    }
  }
}

/** Returns an answer whose output fits into a report. */
function shortened(answer: AgentReport['answers'][number]): AgentReport['answers'][number] {
  if (bytesOf(answer) < fleetLimits.reportBytes / 2) return answer
  // Control characters take six times their size in JSON.
  const cut = (text: string | null): string | null => text?.slice(-fleetLimits.reportBytes / 16) ?? null
  return { ...answer, output: cut(answer.output), error: answer.error?.slice(0, fleetLimits.reportBytes / 32) ?? null }
}

function bytesOf(value: unknown): number {
  return value === null ? 0 : Buffer.byteLength(JSON.stringify(value)) + 1
}

/*
 * What is in place on the node, for the hub: the deployment of the hub whose files are there, and whether they are no
 * longer those: somebody pushed to the node itself, or edited files. Edited files are searched for now and then.
 */

/** Creates the view of what is in place. */
export function createLive({ store, deployer }: { store: Reader; deployer: LocalDeployer }) {
  /** The deployment after which files were edited, by project. */
  const edited = new Map<string, string>()

  return {
    of(projectId: string): AgentReport['placements'][number] {
      const live = liveDeployment(store, projectId)
      if (live === undefined) return { projectId, liveDeployId: null, liveTree: null, isDrifted: false }
      const made = findHubDeployment(store, live.id)
      return {
        projectId,
        liveDeployId: made?.deployId ?? null,
        liveTree: treeOf(live),
        isDrifted: made === undefined || edited.get(projectId) === live.id
      }
    },
    /** Searches for edited files of a project. Returns whether the answer of `of` has changed. */
    async search(projectId: string, signal: AbortSignal): Promise<boolean> {
      const live = liveDeployment(store, projectId)
      if (live === undefined || deployer.hasRunning(projectId)) return false
      const { count } = await deployer.drift({ projectId, isFull: false, signal })
      const wasEdited = edited.get(projectId) === live.id
      if (count > 0) edited.set(projectId, live.id)
      else edited.delete(projectId)
      return wasEdited !== count > 0
    }
  }
}

/** The tree of the files in place. A deployment that only brought back what differed has no tree of its own. */
function treeOf({ exact, treeSha256 }: DeploymentRow): string | null {
  return exact ? null : treeSha256
}
