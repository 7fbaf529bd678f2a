import type {
  ListedRollout,
  ListedRolloutNode,
  NodePhase,
  RolloutDetail,
  RolloutEvent
} from '../../lib/model/rollout.js'
import { pauseMs, wait } from '../server/requests.js'
import { createNdjsonReader } from '../shared/api.js'

/* A rollout that is followed: its state, its nodes by wave, and the stream that keeps them up to date. */

/** The nodes of a wave. */
export interface Wave {
  number: number
  nodes: ListedRolloutNode[]
  counts: Partial<Record<NodePhase, number>>
}

/** Creates a rollout about which nothing is known yet. */
export function createLiveRollout() {
  let rollout: ListedRollout | undefined
  let nodes = new Map<string, ListedRolloutNode>()
  let waves: Wave[] | null = null

  function begin({ nodes: all, ...listed }: RolloutDetail): void {
    rollout = listed
    nodes = new Map(all.map(node => [node.nodeId, node]))
  }

  return {
    /** Undefined before the first event. */
    get rollout() {
      return rollout
    },

    /** The nodes by wave, in the order of the server. */
    waves: (): readonly Wave[] => (waves ??= wavesOf(nodes.values(), rollout?.waves ?? 0)),
    take(event: RolloutEvent): void {
      waves = null
      if (event.type === 'rollout') begin(event.rollout)
      else if (event.type === 'node') nodes.set(event.node.nodeId, event.node)
      else rollout = event.rollout
    }
  }
}

function wavesOf(nodes: Iterable<ListedRolloutNode>, count: number): Wave[] {
  const waves = Array.from({ length: count }, (_, at): Wave => ({ number: at + 1, nodes: [], counts: {} }))
  for (const node of nodes) {
    // A node that was placed later can be in a wave that the rollout did not have.
    const wave = (waves[node.wave - 1] ??= { number: node.wave, nodes: [], counts: {} })
    wave.nodes.push(node)
    wave.counts[node.phase] = (wave.counts[node.phase] ?? 0) + 1
  }
  return waves
}

/** Time without any line after which the stream is considered dead. */
const silenceMs = 60_000

/** What `followRollout` needs. */
export interface FollowRollout {
  /** Opens the stream. Rejects with a final error (refused) or a temporary one (network). */
  open: (signal: AbortSignal) => Promise<Response>
  onEvent: (event: RolloutEvent) => void
  /** Called when the connection is opened or lost. */
  onConnection: (state: 'open' | 'lost') => void
  /** Whether an error of `open` is final. */
  isFinal: (error: unknown) => boolean
  signal: AbortSignal
}

/**
 * Follows a rollout over several connections until its last event. Each connection begins with the whole rollout, so that
 * nothing is lost between two of them.
 */
export async function followRollout({ open, onEvent, onConnection, isFinal, signal }: FollowRollout): Promise<void> {
  for (let attempt = 0; !signal.aborted; attempt++) {
    const connection = new AbortController()
    const cut = (): void => connection.abort()
    signal.addEventListener('abort', cut)
    try {
      const response = await open(connection.signal)
      onConnection('open')
      let isOver = false
      await eachEvent(response, cut, event => {
        attempt = 0
        onEvent(event)
        isOver ||= event.type === 'end'
      })
      if (isOver) return
    } catch (error) {
      if (signal.aborted) return
      if (isFinal(error)) throw error
    } finally {
      signal.removeEventListener('abort', cut)
    }
    if (signal.aborted) return
    onConnection('lost')
    await wait(pauseMs(attempt, Math.random), signal)
  }
}

/** Reads one stream to its end. `cut` is called after a silence. */
async function eachEvent({ body }: Response, cut: () => void, onEvent: (event: RolloutEvent) => void): Promise<void> {
  const reader = body?.getReader()
  const decoder = new TextDecoder()
  const lines = createNdjsonReader(value => onEvent(value as RolloutEvent))
  for (;;) {
    const timer = setTimeout(cut, silenceMs)
    const read = await reader?.read().finally(() => clearTimeout(timer))
    clearTimeout(timer)
    if (read === undefined || read.done) break
    lines.push(decoder.decode(read.value, { stream: true }))
  }
  lines.end()
}
