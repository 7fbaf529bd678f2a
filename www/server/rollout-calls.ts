import type { ListedRollout, ListedRolloutNode, RolloutDetail, RolloutState } from '../../lib/model/rollout.js'
import type { Client } from './client.js'

/** A page of rollouts. */
export interface RolloutQuery {
  projectId?: string | undefined
  deployId?: string | undefined
  state?: RolloutState | undefined
  limit: number
  /** Id of the last rollout of the previous page. */
  before?: string | undefined
}

/** The API of rollouts. Each function rejects as `Client.ask` does. */
export interface RolloutCalls {
  /** Returns rollouts, the newest first. */
  list(query: RolloutQuery, signal?: AbortSignal): Promise<ListedRollout[]>
  get(id: string, signal?: AbortSignal): Promise<RolloutDetail>
  /** Returns a node with the end of its output. */
  node(id: string, nodeId: string, signal?: AbortSignal): Promise<ListedRolloutNode>
  /** Returns the NDJSON stream of a rollout, which begins with the whole of it. */
  events(id: string, signal: AbortSignal): Promise<Response>
  halt(id: string): Promise<ListedRollout>
  resume(id: string): Promise<ListedRollout>
  /** Lets the nodes of a wave and those after it go back; null: all. */
  revert(id: string, wave: number | null): Promise<ListedRollout>
  approve(id: string): Promise<ListedRollout>
}

/** Creates the calls. */
export function createRolloutCalls({ ask, send }: Pick<Client, 'ask' | 'send'>): RolloutCalls {
  const of = (id: string): string => `api/rollouts/${encodeURIComponent(id)}`

  async function act(id: string, action: string, body: object = {}): Promise<ListedRollout> {
    return (await ask<{ rollout: ListedRollout }>('POST', `${of(id)}/${action}`, { body })).rollout
  }

  return {
    async list(query, signal) {
      const sought = new URLSearchParams()
      for (const [name, value] of Object.entries(query)) if (value !== undefined) sought.set(name, String(value))
      return (await ask<{ rollouts: ListedRollout[] }>('GET', `api/rollouts?${sought}`, { signal })).rollouts
    },
    async get(id, signal) {
      return (await ask<{ rollout: RolloutDetail }>('GET', of(id), { signal })).rollout
    },
    async node(id, nodeId, signal) {
      const path = `${of(id)}/nodes/${encodeURIComponent(nodeId)}`
      return (await ask<{ node: ListedRolloutNode }>('GET', path, { signal })).node
    },
    events: (id, signal) => send('GET', `${of(id)}/events`, { signal, headers: { accept: 'application/x-ndjson' } }),
    halt: id => act(id, 'halt'),
    resume: id => act(id, 'resume'),
    revert: (id, wave) => act(id, 'revert', wave === null ? {} : { wave }),
    approve: id => act(id, 'approve')
  }
}
