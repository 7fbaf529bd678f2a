/*
 * Reports incidents once. What lasts (a lost node, edited files, a full disk) is noted before it is told of, so that neither the
 * next look nor a restart repeats it, and forgotten when it has ended.
 */
import { type Clock, instantOf } from '../../base/clock.js'
import type { Incident } from '../../model/incident.js'
import type { DiskFigures } from '../../model/machine.js'
import type { FleetNode } from '../../model/node.js'
import type { Store } from '../../core/store/database.js'
import { findDeployment } from '../../core/store/tables/deployments.js'
import { findNode, listPlacements } from '../../core/store/tables/fleet.js'
import { findProject } from '../../core/store/tables/projects.js'
import { forgetTold, noteTold, toldIncidents } from '../../core/store/tables/server.js'

/** Reports incidents. */
export type Incidents = ReturnType<typeof createIncidents>

export interface IncidentsNeeds {
  store: Store
  clock: Clock
  /** Sends a notification. Never throws. */
  tell(incident: Incident): void
  /** The file system of the data directory. */
  disk(): Promise<DiskFigures & { path: string }>
  /** Nodes that were not heard of for too long, and the ids of those that are connected. */
  nodes(): { lost: FleetNode[]; connected: ReadonlySet<string> }
  log(message: string, error?: unknown): void
}

/** From this percentage on, the disk is low; below the second one, it is not any more. */
const lowFromPercent = 90
const wellBelowPercent = 85
const lookMs = 5_000

/** Creates what reports incidents. */
export function createIncidents({ store, clock, tell, disk, nodes, log }: IncidentsNeeds) {
  let timer: NodeJS.Timeout | undefined
  let looking: Promise<void> | null = null

  /** Reports an incident unless it was told of before and has not ended. */
  async function begin(key: string, incident: Incident): Promise<void> {
    if (toldIncidents(store).includes(key)) return
    if (await store.write(tx => noteTold(tx, key, instantOf(clock)))) tell(incident)
  }

  async function end(key: string): Promise<void> {
    if (toldIncidents(store).includes(key)) await store.write(tx => forgetTold(tx, key))
  }

  async function lookAtDisk(): Promise<void> {
    const found = await disk()
    if (found.percentUsed === null) return
    if (found.percentUsed >= lowFromPercent) await begin('disk_low', { event: 'disk_low', project: null, disk: found })
    else if (found.percentUsed < wellBelowPercent) await end('disk_low')
  }

  async function lookAtNodes(): Promise<void> {
    const { lost, connected } = nodes()
    for (const { id, name, lastSeenAt } of lost) {
      const projectIds = listPlacements(store, { nodeId: id }).map(({ projectId }) => projectId)
      await begin(`node_lost ${id}`, { event: 'node_lost', project: null, node: { id, name, lastSeenAt }, projectIds })
    }
    const lostIds = new Set(lost.map(({ id }) => id))
    for (const key of toldIncidents(store)) {
      const [event, id = ''] = key.split(' ')
      const isForgotten = !lostIds.has(id) && findNode(store, id) === undefined
      if (event === 'node_lost' && (connected.has(id) || isForgotten)) await end(key)
      if (event === 'drift_found' && findProject(store, id) === undefined) await end(key)
    }
  }

  async function lookAll(): Promise<void> {
    try {
      await lookAtDisk()
      await lookAtNodes()
    } catch (error) {
      log('Cannot look for incidents', error)
    }
  }

  /** Looks at the disk and the nodes now. Looks do not overlap. Never rejects. */
  function look(): Promise<void> {
    return (looking ??= lookAll().finally(() => (looking = null)))
  }

  return {
    look,

    /** Takes note of how many files of a project differ on this server, or on a node, which may not say how many. */
    async drifted(
      projectId: string,
      files: number | null,
      node: Pick<FleetNode, 'id' | 'name'> | null = null
    ): Promise<void> {
      const key = `drift_found ${projectId}${node === null ? '' : ` ${node.id}`}`
      const project = findProject(store, projectId)
      if (files === 0 || project === undefined) return end(key)
      const { id, name, deployPath } = project
      const drift = { files, node: node?.name ?? null }
      await begin(key, { event: 'drift_found', project: { id, name, deployPath }, drift })
    },

    /** Takes note of the releases whose archives are damaged: all of them, each time. */
    async archives(damaged: readonly string[]): Promise<void> {
      const keyOf = (id: string): string => `archives_damaged ${id}`
      const keys = new Set(damaged.map(keyOf))
      const told = toldIncidents(store)
      for (const key of told) if (key.startsWith(keyOf('')) && !keys.has(key)) await end(key)
      const rows = damaged.filter(id => !told.includes(keyOf(id))).flatMap(id => findDeployment(store, id) ?? [])
      if (rows.length === 0) return
      await store.write(tx => rows.forEach(({ id }) => noteTold(tx, keyOf(id), instantOf(clock))))
      const releases = rows.map(({ id, projectName }) => ({ id, projectName }))
      const projectIds = [...new Set(rows.map(({ projectId }) => projectId))]
      tell({ event: 'archives_damaged', project: null, releases, projectIds })
    },

    start(): void {
      void look()
      timer = setInterval(() => void look(), lookMs).unref()
    },

    /** Waits for a look that is going on. */
    async stop(): Promise<void> {
      clearInterval(timer)
      await looking
    }
  }
}
