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
import { type ConnectionWaits, createHubClient, type HubClient, keepConnected } from './hub-client.js'
import { createDuties } from './duties.js'
import { noResult } from './duty-works.js'
import { createKeyring } from './from-hub.js'
import { addressesOf, type AgentKey, type Identity, writeIdentity } from './identity.js'
import { createLive, createReports } from './reports.js'
import { type AdoptedFields, hubActor, type LocalDeployer, type LocalProjects, type LocalVariables } from './swap.js'
import { createReleases } from './releases.js'

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

/** Creates an agent, which begins at once. */
export function createAgent(needs: AgentNeeds) {
  const { home, key, store, clock, createCaller, deployer, warn, log, random = Math.random } = needs
  const times = { ...defaultTimes, ...needs.times }
  let identity = needs.identity
  const { nodeId } = identity
  const keyring = createKeyring(identity.hubKey, hubKey => learn({ hubKey }))
  const stopping = new AbortController()
  const client = createHubClient({ nodeId, key, keyring, hubs: addressesOf(identity), createCaller })
  const releases = createReleases({
    directory: join(home, 'prepared'),
    client,
    keyring,
    earlierArchive(projectId) {
      const id = liveDeployment(store, projectId)?.id
      return id === undefined ? null : join(home, 'deployments', `${id}.zip`)
    }
  })
  const live = createLive({ store, deployer })
  const relay = needs.createRelay?.(client)
  let saving: Promise<unknown> = Promise.resolve()
  /** What goes on beside the orders of the hub. */
  const asides = new Set<Promise<void>>()

  function aside(what: string, work: Promise<unknown>): void {
    const going = work.then(
      () => void asides.delete(going),
      error => {
        asides.delete(going)
        log(what, error)
      }
    )
    asides.add(going)
  }

  const duties = createDuties({
    ...needs,
    nodeId,
    async prepare(duty, signal) {
      const release = await releases.fetch(duty, signal)
      await adoptProject(needs, release.document)
      const { projectId, offered } = release.document
      await deployer.preflight({ projectId, archivePath: release.archivePath, offered })
      return release
    },
    done: ({ release }) => aside('Cannot remove a prepared archive', releases.remove(release)),
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
    answersOf(projectId) {
      const duty = duties.find(projectId)
      const answer = duty === undefined ? null : answerOf(duty.state)
      const ignored = duties.ignored(projectId)
      const { failedStep, output, tookMs } = duty ?? noResult
      return [
        ...(answer === null ? [] : [{ projectId, ...answer, failedStep, output, tookMs }]),
        ...(ignored === undefined ? [] : [{ projectId, ...ignored, answer: 'ignored' as const, ...noResult }])
      ]
    },
    liveOf: projectId => (duties.find(projectId) === undefined ? null : live.of(projectId)),
    everyMs: times.reportEveryMs,
    failed: error => warn(`Cannot report to the hub: ${reasonOf(error)}`)
  })

  const projectIds = (): string[] => [...duties.all()].map(({ projectId }) => projectId)

  /** Keeps the identity on the disk. */
  function learn(change: Partial<Identity>): void {
    identity = { ...identity, ...change }
    saving = saving
      .then(() => writeIdentity(home, identity))
      .catch(error => log('Cannot store the identity of the agent', error))
  }

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
    if (hubs.join() === (identity.named ?? []).join()) return
    learn({ named: hubs })
    client.setHubs(addressesOf(identity))
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
      warn
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

  async function sweep(): Promise<void> {
    const used = new Set(
      [...duties.all()].filter(({ state }) => state.action === 'swap').map(({ release }) => release.archiveSha256)
    )
    await releases.sweep(machineTimeOf(clock), sha256 => used.has(sha256))
  }

  const sweepAside = (): void => aside('Cannot remove old prepared archives', sweep())
  const searchAside = (): void => aside('Cannot search for edited files', searchDrift())
  sweepAside()
  const drift = setInterval(searchAside, times.driftEveryMs * (0.75 + random() / 2)).unref()
  const sweeping = setInterval(sweepAside, sweepEveryMs).unref()

  return {
    get identity() {
      return identity
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
      await Promise.all([connected, reported, duties.stop(), saving])
      await Promise.all(asides)
      client.close()
    }
  }
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
