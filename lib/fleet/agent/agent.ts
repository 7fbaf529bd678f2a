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
import { type DesiredLine, type ReleaseDocument, reportEveryMs } from '../../model/fleet-wire.js'
import type { Store } from '../../core/store/database.js'
import { liveDeployment } from '../../core/store/tables/deployments.js'
import { answerOf } from '../duty.js'
import { type ConnectionWaits, HubClient, keepConnected } from './hub-client.js'
import { Duties } from './duties.js'
import { noResult } from './duty-works.js'
import { createKeyring } from './from-hub.js'
import { addressesOf, type AgentKey, type Identity, writeIdentity } from './identity.js'
import { createLive, createReports } from './reports.js'
import { type AdoptedFields, hubActor, type LocalDeployer, type LocalProjects, type LocalVariables } from './swap.js'
import { Releases } from './releases.js'

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

/** A running agent. */
export type Agent = ReturnType<typeof createAgent>

const defaultTimes = { reportEveryMs, driftEveryMs: 10 * 60_000, waits: {} }
const sweepEveryMs = 60 * 60_000

/** Creates what an agent is made of. */
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
