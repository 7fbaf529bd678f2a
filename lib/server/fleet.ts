/*
 * The fleet of a server. Its modules are loaded at the start only if there is something of a fleet: a node, an
 * enrollment or a placement. Otherwise they are loaded at the first use.
 */
import type { Hub } from '../fleet/hub/hub.js'
import type { Deployer } from '../deploy/deployer.js'
import { countEnrollments } from '../store/tables/enrollments.js'
import { countNodes } from '../store/tables/nodes.js'
import { countPlacements } from '../store/tables/placements.js'
import type { Front, World } from './front.js'

/** The fleet of a server. */
export interface FleetService {
  /** Returns the hub, and starts it if it does not run. */
  hub(): Promise<Hub>
  /** Returns the hub if it runs. */
  running(): Hub | null
  /** Whether there is something of a fleet: a node, an enrollment or a placement. */
  isUsed(): boolean
  /** Starts the hub if there is something of a fleet. */
  start(): Promise<void>
  stop(): Promise<void>
}

/** Creates the fleet of a server. */
export function createFleet(
  world: World,
  { audit, serverKey, nodes }: Pick<Front, 'audit' | 'serverKey' | 'nodes'>,
  deployer: () => Pick<Deployer, 'hasRunning'>
): FleetService {
  const { store, publicUrl } = world
  let loading: Promise<Hub> | null = null
  let running: Hub | null = null

  async function load(): Promise<Hub> {
    const { createHub } = await import('../fleet/hub/hub.js')
    running = createHub({
      ...world,
      audit,
      serverKey,
      hubs: () => (publicUrl === null ? [] : [publicUrl]),
      hasRunning: projectId => deployer().hasRunning(projectId),
      endSessions: nodes.end
    })
    running.start()
    return running
  }

  function hub(): Promise<Hub> {
    loading ??= load()
    return loading
  }

  const isUsed = (): boolean => countNodes(store) > 0 || countEnrollments(store) > 0 || countPlacements(store) > 0

  return {
    hub,
    isUsed,
    running: () => running,
    async start() {
      if (isUsed()) await hub()
    },
    async stop() {
      await (await loading)?.stop()
    }
  }
}
