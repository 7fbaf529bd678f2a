import type { Enrollment, ListedNode, ListedPlacement } from '../../model/node.js'
import type { ListedRollout, RolloutDetail, RolloutEvent, RolloutState } from '../../model/rollout.js'
import type { Client } from './client.js'
import { readNdjson, streamBroken } from './streams.js'

/** Timeout for silence on a stream of events. The server sends nothing while a rollout waits, so it is long. */
const eventSilenceMs = 24 * 60 * 60_000

/** A token to create, with which a machine becomes a node. */
export interface EnrollmentGiven {
  name: string | undefined
  labels: Record<string, string>
  seconds: number | undefined
}

/** A change of the nodes of a project. Nodes are named by id or name. */
export interface PlacementChange {
  add?: Array<{ node: string; deployPath?: string }>
  remove?: string[]
}

/** A filter for a list of rollouts. */
export interface RolloutQuery {
  projectId?: string | undefined
  deployId?: string | undefined
  state?: RolloutState | undefined
  limit?: number | undefined
}

/** The API of the fleet as functions. */
export interface FleetApi {
  nodes(query: { projectId?: string | undefined; label?: string | undefined }): Promise<ListedNode[]>
  /** Returns a node by its id or name. */
  node(node: string): Promise<ListedNode>
  updateNode(node: string, change: { name?: string; labels?: Record<string, string> }): Promise<ListedNode>
  drain(node: string, isDrained: boolean): Promise<ListedNode>
  forget(node: string): Promise<void>
  enrollments(): Promise<Enrollment[]>
  enroll(given: EnrollmentGiven): Promise<{ enrollment: Enrollment; token: string }>
  revokeEnrollment(id: string): Promise<void>
  placements(projectId: string): Promise<ListedPlacement[]>
  place(projectId: string, change: PlacementChange): Promise<ListedPlacement[]>
  rollouts(query: RolloutQuery): Promise<ListedRollout[]>
  rollout(id: string): Promise<RolloutDetail>
  halt(id: string, reason: string | undefined): Promise<ListedRollout>
  resume(id: string): Promise<ListedRollout>
  /** Lets nodes go back, from this wave on; undefined: all. */
  revert(id: string, wave: number | undefined): Promise<ListedRollout>
  approve(id: string): Promise<ListedRollout>
  /** Follows a rollout until its line `end`. Throws `stream_broken` if the connection is lost before. */
  follow(id: string, signal: AbortSignal): AsyncIterable<RolloutEvent>
}

/** Builds the API of the fleet on a client. */
export function createFleetApi(client: Client): FleetApi {
  const nodePath = (node: string) => `/api/nodes/${encodeURIComponent(node)}`
  const placementsPath = (id: string) => `/api/projects/${encodeURIComponent(id)}/placements`
  const rolloutPath = (id: string) => `/api/rollouts/${encodeURIComponent(id)}`

  async function change(id: string, verb: string, json: object): Promise<ListedRollout> {
    const call = { method: 'POST', path: `${rolloutPath(id)}/${verb}`, json } as const
    return (await client.json<{ rollout: ListedRollout }>(call)).rollout
  }

  return {
    nodes: async query => (await client.json<{ nodes: ListedNode[] }>({ path: '/api/nodes', query })).nodes,
    node: async node => (await client.json<{ node: ListedNode }>({ path: nodePath(node) })).node,
    updateNode: async (node, json) =>
      (await client.json<{ node: ListedNode }>({ method: 'PATCH', path: nodePath(node), json })).node,
    drain: async (node, drained) =>
      (await client.json<{ node: ListedNode }>({ method: 'PUT', path: `${nodePath(node)}/drain`, json: { drained } }))
        .node,
    forget: async node => void (await client.json({ method: 'DELETE', path: nodePath(node) })),
    enrollments: async () =>
      (await client.json<{ enrollments: Enrollment[] }>({ path: '/api/enrollments' })).enrollments,
    enroll: json => client.json({ method: 'POST', path: '/api/enrollments', json }),
    revokeEnrollment: async id =>
      void (await client.json({ method: 'DELETE', path: `/api/enrollments/${encodeURIComponent(id)}` })),
    placements: async id =>
      (await client.json<{ placements: ListedPlacement[] }>({ path: placementsPath(id) })).placements,
    place: async (id, json) =>
      (await client.json<{ placements: ListedPlacement[] }>({ method: 'PATCH', path: placementsPath(id), json }))
        .placements,
    rollouts: async ({ limit, ...query }) =>
      (
        await client.json<{ rollouts: ListedRollout[] }>({
          path: '/api/rollouts',
          query: { ...query, limit: limit?.toString() }
        })
      ).rollouts,
    rollout: async id => (await client.json<{ rollout: RolloutDetail }>({ path: rolloutPath(id) })).rollout,
    halt: (id, reason) => change(id, 'halt', { reason }),
    resume: id => change(id, 'resume', {}),
    revert: (id, wave) => change(id, 'revert', { wave }),
    approve: id => change(id, 'approve', {}),
    async *follow(id, signal) {
      const answer = await client.open({ path: `${rolloutPath(id)}/events`, accept: 'application/x-ndjson', signal })
      answer.setTimeout(eventSilenceMs, () => answer.destroy(streamBroken()))
      for await (const value of readNdjson(answer)) {
        const event = value as unknown as RolloutEvent
        yield event
        if (event.type === 'end') return
      }
      throw streamBroken()
    }
  }
}
